"""Intervals, effects, change points and the capacity model: pure functions over runs."""
