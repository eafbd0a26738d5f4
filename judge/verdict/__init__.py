"""Draw conclusions from the checks: is the evidence complete, what happened to each lost record, the verdict."""
