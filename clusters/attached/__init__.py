"""Clusters that Plimsoll did not start."""
