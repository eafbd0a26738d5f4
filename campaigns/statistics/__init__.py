"""Pure functions over runs: intervals, effects, change points, capacity."""
