"""Typed campaign results, ``result.json``."""
