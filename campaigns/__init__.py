"""Campaigns: many runs that answer one question."""
