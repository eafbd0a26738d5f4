"""The same matrix every night, and what changed."""
