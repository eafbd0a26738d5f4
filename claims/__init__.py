"""Forty-eight claims about replication, each answered from recorded runs."""
