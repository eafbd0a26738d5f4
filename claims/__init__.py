"""Forty-eight claims about replication, answered from recorded runs."""
