"""Typed campaign results: campaigns write them as ``result.json``, pages read them."""
