"""What a phase is told in: targets, conditions and steps, as data.

``clusters.run.phase`` does what a step says. docs/scenarios.md explains each with an example.
"""
