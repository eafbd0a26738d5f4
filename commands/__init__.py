"""The command line: ``plimsoll``."""
