"""What follows from the checks: is the evidence complete, what happened to each lost record, and the verdict."""
