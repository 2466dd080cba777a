"""The rows that a first stage ships for `delta`: the values of all records, in their order, in bounded chunks."""

import math

import pyarrow as pa
import pytest
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario

from slicing.content.signals import ABSENT, FIRST, NUMBER, WHEN
from slicing.stages import preaggregate
from slicing.stages.preaggregate import PreAggregate, ShuffleRecords
from slicing.stages.signalled import Signalled
from slicing.triggers.emission import early
from slicing.windows.window import Hopping

STAGES = {
    "partials": lambda shape: PreAggregate(shape, ((0,),), (0, 1)),
    "records": lambda shape: ShuffleRecords(shape, (0, 1)),
    "both": lambda shape: PreAggregate(shape, ((0,),), (0, 1), with_records=True),
}


def batches(count, rows, noted):
    for number in range(count):
        noted.append(number)
        at = [number * rows + row for row in range(rows)]
        columns = {
            "time": pa.array(at, pa.timestamp("us", "UTC")),
            "k0": pa.array([each % 3 for each in at]),
            "s2": pa.array([(None, math.nan, float(each))[min(each % 5, 2)] for each in at]),
            "v0": pa.array(at),
        }
        yield pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("name", STAGES)
def test_values_are_shipped_in_order_after_each_chunk(monkeypatch, name):
    monkeypatch.setattr(preaggregate, "CHUNK_ROWS", 20)
    shape = Scenario(Even(Hopping(7, 7)), early(delta=("v", 1.0)), results=("sum",)).shape
    stage, noted, rows, first = Signalled(STAGES[name](shape), (NUMBER,)), [], [], None
    for some in stage(batches(12, 10, noted), 1):
        assert some.schema.names == [column.split()[0] for column in stage.schema.split(", ")]
        if first is None and some["numbers"].null_count < len(some):
            first = len(noted)
        rows += some.to_pylist()
    assert first == 2, "batches of the first chunk"
    shipped = sorted((row for row in rows if row["numbers"] is not None), key=lambda row: row["part"])
    assert len({row["part"] for row in shipped}) == len(shipped) >= 6
    found = {}
    for each in stage.heard({"signals": [], "numbers": [row["numbers"] for row in shipped]}).numbers:
        for key, value in zip(each.names.column(0).to_pylist(), each.values[0].to_pylist(), strict=True):
            found.setdefault(key, []).append(value)
    wanted = [at for at in range(120) if at % 5 >= 2]
    assert found == {key: [float(at) for at in wanted if at % 3 == key] for key in range(3)}
    assert sum(row["block"] is not None or row.get("records") is not None for row in rows) > 0


def test_the_first_event_time_may_be_that_of_a_column():
    shape = Scenario(Even(Hopping(7, 7)), early(after="1 second", by="event"), results=("sum",)).shape
    stage = Signalled(PreAggregate(shape, ((0,),), (0,)), (WHEN, FIRST), has_times=True)
    columns = {
        "time": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
        "k0": pa.array([1, 1, 2]),
        "v0": pa.array([5, 6, 7]),
        "s1": pa.array([50, 40, 70]),
        "s0": pa.array([False, True, None]),
    }
    rows = pa.Table.from_batches(stage([pa.RecordBatch.from_pydict(columns)])).to_pydict()
    (found,) = stage.heard(rows).blocks
    keys = found.names.column(0).take(pa.array(found.keys)).to_pylist()
    signals = [column.tolist() for (column,) in found.partials]
    assert dict(zip(keys, zip(*signals, strict=True), strict=True)) == {1: (0, 40), 2: (ABSENT, 70)}
