"""Tables of partials in process: windows from slices of another, finer cut are those of the records."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from golden.every_kind import BEGIN, SECOND, WINDOWS, Line, micro_batches

from slicing.content.folding import fold
from slicing.errors import InvalidValue
from slicing.stages.of_partials import OfPartials
from slicing.stages.output import flat_windows
from slicing.windows.families.slices_of import SlicesOf
from slicing.windows.window import hopping

NAMES = ["hopping, combined, on close", "hopping, shared, on close", "several, combined, on close"]
FINER = SlicesOf(hopping("2 seconds", "500 milliseconds").family)


def table(shape, blocks):
    """What a table of partials has of blocks, in any order."""
    block = fold(shape, blocks)
    start, stop = (shape.family.slice_start(block.index + more) for more in (0, 1))
    columns = {"time": pa.array(start), "stop": pa.array(stop)}
    columns |= {f"k{i}": each.take(pa.array(block.keys)) for i, each in enumerate(block.names.columns)}
    columns["records"] = pa.array(block.records)
    for kernel, partials, dictionary in zip(shape.kernels, block.partials, block.dictionaries, strict=True):
        for each in kernel.to_arrow(partials, dictionary):
            columns[f"v{len(columns)}"] = each
    rows = list(range(len(block)))
    random.Random(1).shuffle(rows)
    return pa.table(columns).take(rows)


def rows(line, shipped):
    shape = line.execution_plan.shape
    frames = (flat_windows(shape, frame) for frame in line.execution_plan.all_windows(shipped))
    return sorted(repr(row) for frame in frames for row in frame.to_pylist())


def finer(line, records):
    """The shape of the slices of half a second, and what a first stage makes of records."""
    shape = replace(line.execution_plan.shipping, family=FINER)
    names = ["time", "key", "n", "s", "gap"]
    types = {"s": pa.string()}
    arrays = [pa.array([each[at] for each in records], types.get(name, pa.int64())) for at, name in enumerate(names)]
    shipped = replace(line.stage, shape=shape)([pa.RecordBatch.from_arrays(arrays, names)])
    return shape, replace(line.execution_plan.stored, shape=shape).shipped(pa.Table.from_batches(shipped).to_pydict())


@pytest.mark.parametrize("name", NAMES)
def test_windows_from_finer_slices_are_those_of_the_records(name):
    line = Line(name)
    records = [each for some, *_ in micro_batches(name.partition(",")[0]) for each in some]
    shape, blocks = finer(line, records)
    stored = table(shape, blocks)
    stage = OfPartials(line.execution_plan.shipping, (), (0,))
    batches = stored.to_batches(max_chunksize=7)
    shipped = line.execution_plan.shipped(pa.Table.from_batches(stage(batches)).to_pydict())
    found = rows(line, shipped)
    assert found == rows(line, line.shipped(records))
    assert len(found) > 50
    assert len(stored) > 20


def test_a_slice_that_the_windows_cut_is_refused():
    line = Line(NAMES[0])
    shape = replace(line.execution_plan.shipping, family=SlicesOf(WINDOWS["few slices"][0].family))
    _, blocks = finer(line, [[BEGIN, 1, 1, "a", SECOND]])
    coarse = replace(blocks[0], index=shape.family.slice_at(FINER.slice_start(blocks[0].index)))
    stage = OfPartials(line.execution_plan.shipping, (), (0,))
    with pytest.raises(InvalidValue, match=r"the slice \[2026-03-27T23:59:58, 2026-03-28T00:00:01\) is cut at 2026"):
        list(stage(table(shape, [coarse]).to_batches()))


def test_a_merged_slice_may_hold_edges_of_earlier_windows_only():
    """Windows of 6 s that begin every 3 s, at 1 s and so on; slices are cut at 1 s, 4 s, 7 s::

    windows              [1 ===== 7)
                               [4 ===== 10)
                                     [7 ===== 13)
    merged slice         [1         7)                 held by all of [1, 7), and by a part of [4, 10)
    """
    family = WINDOWS["few slices"][0].family
    shape = replace(Line(NAMES[0]).execution_plan.shipping, family=family)
    start, stop = np.array([BEGIN + SECOND]), np.array([BEGIN + 7 * SECOND])
    windows = {at: int(family.first_open(BEGIN + (at + 5) * SECOND, 0)) for at in (-2, 1, 4, 7)}
    assert {at: (int(family.window_start(w)) - BEGIN) // SECOND for at, w in windows.items()} == {
        at: at for at in windows
    }
    for at, is_cut in ((-2, True), (1, True), (4, True), (7, False)):
        stage = OfPartials(shape, (), (0,), first=(windows[at],))
        if is_cut:
            with pytest.raises(InvalidValue, match="is cut at"):
                stage._slices(start, stop)
        else:
            assert stage._slices(start, stop).tolist() == [family.slice_at(BEGIN + SECOND)]
    later = np.array([BEGIN + 4 * SECOND]), np.array([BEGIN + 7 * SECOND])
    assert len(OfPartials(shape, (), (0,), first=(windows[1],))._slices(*later)) == 1


def test_the_end_of_a_history_is_the_end_of_a_slice():
    line = Line(NAMES[0])
    shape, blocks = finer(line, [[BEGIN, 1, 1, "a", SECOND]])
    stage = OfPartials(line.execution_plan.shipping, (), (0,), until=BEGIN + 250_000)
    with pytest.raises(InvalidValue, match="`until` must be where a slice of the table ends"):
        list(stage(table(shape, blocks).to_batches()))


def test_the_records_of_rows_without_a_slice_are_counted():
    line = Line(NAMES[0])
    shape, blocks = finer(line, [[BEGIN, 1, 1, "a", SECOND], [BEGIN, 1, 2, "b", SECOND]])
    stored = table(shape, blocks)
    without = stored.set_column(0, "time", pa.nulls(len(stored), stored["time"].type))
    stage = OfPartials(line.execution_plan.shipping, (), (0,))
    shipped = pa.Table.from_batches(stage(pa.concat_tables([stored, without]).to_batches()))
    assert sum(shipped["no_time"].to_pylist()) == 2
    assert sum(shipped["no_window"].to_pylist()) == 0
