"""Check that training rows and served values are the same: run both on a sample, and compare them row by row.

The records are cut at some instants of the spine. Each part is a micro-batch of a stream that serves; after it, the
reader is asked as of the instant at which it was cut, when it has read every record before that instant and no other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.drawing import lines
from slicing.errors import InvalidType, InvalidValue, shortened
from slicing.laws import alike
from slicing.serving import Answer, Reader, Served
from slicing.spark.columns import quoted
from slicing.spark.serving import ServeTo, serve_to
from slicing.windows.time.durations import show_instant
from slicing.windows.time.edges import BEFORE

AS_OF = "slicing_instant"
_WITHIN = 1e-9
"""How far floats may differ: they are added in another order."""
_FOREVER = "36500 days"
_MOST_SHOWN = 100
"""The maximum number of slices in an error."""


class Checked(Served, Protocol):
    """What is asked of a definition."""

    def at(self, spine: DataFrame, history: DataFrame, *, spine_time: str | None) -> DataFrame:
        """Return training rows."""

    def serve(self, events: DataFrame) -> DataFrame:
        """Return the slices of a stream."""


def check(definition: Checked, spine: DataFrame, history: DataFrame, time: str | None, instants: int) -> int:
    """Return how many training rows are the same as served ones. Raises InvalidValue for the first other."""
    asked = definition.windowed
    if not (isinstance(asked.time, str) and all(isinstance(key, str) for key in asked.keys)):
        raise InvalidType(
            f"`check_serving` takes a definition whose time and keys are names of columns; got {asked.time} and "
            f"{', '.join(map(str, asked.keys))}. Compute them first, by `withColumn`."
        )
    if isinstance(history.schema[asked.time].dataType, T.TimestampNTZType):
        raise InvalidType(
            f"`check_serving` runs a stream, whose watermark is of a timestamp; `{asked.time}` is timestamp_ntz. "
            f'Give both tables with `F.col("{asked.time}").cast("timestamp")`, in a session whose time zone is UTC.'
        )
    place = F.unix_micros(quoted(time or asked.time))
    known = spine.where(place.isNotNull()).withColumn(AS_OF, place)
    cuts = sorted(row[0] for row in known.select(AS_OF).distinct().orderBy(F.rand(1)).limit(instants).collect())
    rows = definition.at(known.where(F.col(AS_OF).isin(cuts)), history, spine_time=time).toArrow().to_pylist()
    rows.sort(key=lambda row: row[AS_OF])
    by_instant = {at: list(some) for at, some in groupby(rows, key=lambda row: row[AS_OF])}
    with TemporaryDirectory() as folder:
        reads = Reads(definition, by_instant, cuts, folder)
        _stream(definition, history, cuts, Path(folder), reads)
    if reads.found:
        raise InvalidValue(reads.found)
    assert reads.compared == len(rows), "each cut has a micro-batch"
    return reads.compared


@dataclass
class Reads:
    """The function for `foreachBatch` that serves a micro-batch, and compares what is read with the training rows."""

    definition: Checked
    rows: Mapping[int, Sequence[dict[str, Any]]]
    cuts: Sequence[int]
    folder: str
    compared: int = 0
    found: str = ""
    write: ServeTo = field(init=False)

    def __post_init__(self) -> None:
        self.url = f"sqlite:///{self.folder}/served.db"
        self.write = serve_to(self.url, keep=_FOREVER)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Serve a micro-batch, then compare the rows as of its end."""
        self.write(batch, number)
        if self.found or number >= len(self.cuts):
            return
        instant, keys = self.cuts[number], self.definition.windowed.keys
        rows = self.rows[instant]
        reader = Reader(self.url, self.definition)
        asked = [row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys) for row in rows]
        for row, key, answer in zip(rows, asked, reader.read_many(asked, at=instant), strict=True):
            self.found = self.found or self._difference(reader, row, key, answer)
            self.compared += 1
        reader.close()

    def _difference(self, reader: Reader, row: Mapping[str, Any], key: Any, answer: Answer) -> str:
        """Return how a training row differs from an answer, with the slices of the answer; "" if it does not."""
        named = self.definition.windowed.windows.names is not None
        for number, (window, values) in enumerate(answer.items()):
            starts = row["starts"][window] if named else row["start"]
            trained = {name: row[f"{name}_{window}" if named else name] for name, _ in self.definition.results}
            if starts != answer.starts[window] or values is None or not alike(trained, values, _WITHIN):
                start: datetime = answer.starts[window]
                return (
                    f"training rows and served values must be the same, and those of key {key!r} as of "
                    f"{answer.at.isoformat()} differ in {window}: `at` gives {trained} from {starts} on, the reader "
                    f"{values} of the slices from {start} on. Check `combine` of these results by `slicing.laws.check`."
                    f"{_shown(reader.slices(key, number, row[AS_OF]))}"
                )
        return ""


def _shown(slices: Sequence[tuple[int, int, Mapping[str, Any]]]) -> str:
    """Return the slices of an answer as lines of a table."""
    rows = [
        (show_instant(start), show_instant(end), *(shortened(str(value)) for value in values.values()))
        for start, end, values in sorted(slices, key=itemgetter(0))
    ]
    left = len(rows) - _MOST_SHOWN
    table = lines([("from", "to", *slices[0][2]), *rows[:_MOST_SHOWN]], right=True) if slices else []
    return "".join(f"\n{line}" for line in [*table, *([f"and {left} later slices"] if left > 0 else [])])


def _stream(definition: Checked, history: DataFrame, cuts: Sequence[int], folder: Path, reads: Reads) -> None:
    """Run a stream of the records before each cut, a micro-batch for each."""
    time = str(definition.windowed.time)
    place, files = F.unix_micros(quoted(time)), folder / "records"
    files.mkdir()
    for number, (low, high) in enumerate(pairwise([BEFORE, *cuts])):
        some = history.where((place >= low) & (place < high))
        some.coalesce(1).write.parquet(str(folder / f"part{number}"))
        (part,) = (folder / f"part{number}").glob("*.parquet")
        part.rename(files / f"{number:04}.parquet")
        os.utime(files / f"{number:04}.parquet", (number, number))
    events = history.sparkSession.readStream.schema(history.schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    served = definition.serve(events.withWatermark(time, "0 seconds")).writeStream.outputMode("update")
    query = served.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.foreachBatch(reads).start().awaitTermination()
