"""Nodes as containers on the run's own bridge network; Linux hosts only, nothing is published."""
