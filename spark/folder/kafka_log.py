"""Kafka's log segments as a DataFrame: ``spark.read.format("kafka_log").load(folder)``; the rows of
``kafka_files.segments.SEGMENTS``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kafka_files.segments import SEGMENTS, read_segment, segment_files

TASK_BYTES = 8_000_000


class _Segments(InputPartition):
    def __init__(self, files: list[tuple[str, str]]) -> None:
        super().__init__(files)


def together(sizes: Sequence[int], most: int) -> list[range]:
    """Neighbours by their index, as many as have no more than ``most`` bytes; a larger one stands alone.

    A task for each segment would cost more than what small segments hold.
    """
    found: list[range] = []
    held = 0
    for index, size in enumerate(sizes):
        if found and held + size <= most:
            found[-1], held = range(found[-1].start, index + 1), held + size
        else:
            found.append(range(index, index + 1))
            held = size
    return found


class _Reader(DataSourceReader):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partitions(self) -> list[InputPartition]:
        files = segment_files(self._folder)
        named = [(file.relative_to(self._folder).parts[0], str(file)) for file in files]
        groups = together([file.stat().st_size for file in files], TASK_BYTES)
        return [_Segments([named[index] for index in group]) for group in groups or [range(0)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for node, file in partition.value:
            yield from read_segment(node, Path(file))


class KafkaLog(DataSource):
    """The Python Data Source behind ``kafka_log``; a path's first folder is the node's name."""

    @classmethod
    def name(cls) -> str:
        return "kafka_log"

    def schema(self) -> StructType:
        return from_arrow_schema(SEGMENTS)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # the data source protocol names it
        return _Reader(Path(self.options["path"]))


def register(spark: SparkSession) -> None:
    """Make the format ``kafka_log`` known to a session."""
    spark.dataSource.register(KafkaLog)
