"""The Spark data source `kchaos_batches`: the batches of many run directories, as rows.

    spark.dataSource.register(BatchSource)
    spark.read.format("kchaos_batches").option("runs", json.dumps(paths)).load()

It reads and judges nothing. Every task yields Arrow record batches. Paths must be the same on every
executor (one machine, or a shared file system).
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kchaos.checkers.evidence.partition import finding_to_json
from kchaos.checkers.findings import Finding
from kchaos.checkers.spark.parts import PART_BYTES, Part, plan, rows_of_part
from kchaos.checkers.spark.rows import BATCH_TABLE, ddl, error_row, record_batch, told_error

NAME = "kchaos_batches"
_ROWS_A_BATCH = 20_000


class BatchSource(DataSource):
    """Options: `runs`, a JSON list of paths; `part_bytes`, about how much a task reads."""

    @classmethod
    def name(cls) -> str:
        """Name for `spark.read.format`."""
        return NAME

    def schema(self) -> str:
        """Spark's DDL of `checkers.spark.rows.BATCH_TABLE`."""
        return ddl(BATCH_TABLE)

    def reader(self, schema: Any) -> "BatchReader":
        """The reader; Spark passes `schema` by that name."""
        runs = [Path(path) for path in json.loads(self.options["runs"])]
        return BatchReader(runs, int(self.options.get("part_bytes", PART_BYTES)))


@dataclass
class _Pack(InputPartition):
    """Input of one task."""

    parts: Sequence[Part]


class BatchReader(DataSourceReader):
    """Plans by bytes on the driver and reads in tasks."""

    def __init__(self, runs: Sequence[Path], part_bytes: int) -> None:
        self._runs = runs
        self._part_bytes = part_bytes

    def partitions(self) -> list[_Pack]:
        """One for each pack of parts; an empty one if there is nothing to read."""
        packs = plan(self._runs, part_bytes=self._part_bytes)
        return [_Pack(pack) for pack in packs or [[]]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields `pyarrow.RecordBatch`es."""
        assert isinstance(partition, _Pack)
        rows = (_plain(row) for part in partition.parts for row in rows_of_part(part))
        while chunk := list(itertools.islice(rows, _ROWS_A_BATCH)):
            yield _table_of(chunk)


def _table_of(rows: list[dict[str, Any]]) -> Any:
    """The rows as Arrow has them; a row that it cannot have makes its run unknown, not the job."""
    try:
        return record_batch(BATCH_TABLE, rows)
    except Exception:  # noqa: BLE001 - it is found out below which row it was
        return record_batch(BATCH_TABLE, [_row_or_error(row) for row in rows])


def _row_or_error(row: dict[str, Any]) -> dict[str, Any]:
    try:
        record_batch(BATCH_TABLE, [row])
    except Exception as error:  # noqa: BLE001 - the run becomes unknown, and the others go on
        return error_row(row["run"], told_error(error))
    return row


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    finding = row.get("finding")
    if isinstance(finding, Finding):
        row["finding"] = json.dumps(finding_to_json(finding))
    return row
