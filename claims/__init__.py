"""Forty-eight claims about replication, each answered by what a run recorded."""
