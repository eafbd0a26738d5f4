"""Campaigns: many runs that answer one question, their order, and the combined result."""
