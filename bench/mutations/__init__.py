"""Damage to recorded runs: every way in which a checker claims to see something."""
