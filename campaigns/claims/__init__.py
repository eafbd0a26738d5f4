"""Every claim of the table, answered on one version."""
