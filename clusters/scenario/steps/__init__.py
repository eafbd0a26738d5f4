"""Define targets, conditions and steps as data.

``clusters.run.phase`` performs them. docs/faults.md explains each with an example.
"""
