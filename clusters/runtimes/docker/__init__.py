"""Run nodes as containers on the run's own bridge network; Linux only, no published ports."""
