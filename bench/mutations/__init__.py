"""Damage to recorded runs, which the judge must detect."""
