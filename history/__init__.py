"""The run folder, shared by recording and judging."""
