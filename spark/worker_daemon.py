"""Spark's own daemon of Python workers, with the installed pyspark (``spark.python.daemon.module``)."""

from __future__ import annotations

from importlib import import_module

from spark.installed import prefer_installed

if __name__ == "__main__":
    prefer_installed()
    import_module("pyspark.daemon").manager()
