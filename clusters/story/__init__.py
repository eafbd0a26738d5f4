"""What a phase is told in: targets, conditions and steps, as data.

``clusters.steps`` does what a step says. docs/scenarios.md explains each with an example.
"""
