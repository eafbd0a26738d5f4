"""The run folder: the one thing that the recording and the judging half share."""
