"""Memory that a worker takes, whatever the jump of the watermark and however large the partials: bytes have bounds.

The bounds are lowered, so that little data exceeds them. What is measured is the peak of a process of its own, beside
that of the same process with nothing to do.
"""

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracle import FINGERPRINT, Case, block_of, cases, evenly, hopping, moment, results, seeds, shape_of
from rooms import python_path
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario

from slicing import early, on_change, on_close, on_update
from slicing.aggregates.aggregate import Aggregate
from slicing.assembly import partitions
from slicing.assembly.assembling import assemble
from slicing.assembly.partitions import InOrder
from slicing.assembly.trees import matrix
from slicing.content import codec
from slicing.content import sizes as blocks_sizes
from slicing.content.folding import fold, from_records
from slicing.content.sizes import memory, parts
from slicing.engines.sliced import closing
from slicing.engines.sliced import slices as engines_slices
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import TooLarge
from slicing.stages import output, preaggregate
from slicing.state import bucket_cache as state_memory
from slicing.state import slice_groups
from slicing.state.store import MemoryStore
from slicing.triggers.update import OnUpdateLatest

SOURCES = cases("rows", "floats", "highest", "joined")


def shown(shape, block):
    """Rows as a set: slice, key, records and partials."""
    columns = [
        array.to_pylist()
        for kernel, partials, own in zip(shape.kernels, block.partials, block.dictionaries, strict=True)
        for array in kernel.to_arrow(partials, own)
    ]
    keys = block.names["k0"].take(pa.array(block.keys)).to_pylist()
    return list(zip(block.index.tolist(), keys, block.records.tolist(), *columns, strict=True))


def random_blocks(seed, shape, count=6):
    rng = random.Random(seed)
    most = rng.choice([3, 40])
    return [
        block_of(
            shape, SOURCES, [(rng.randrange(300) * 1000, rng.randrange(most), rng.randrange(99)) for _ in range(30)]
        )
        for _ in range(count)
    ]


@pytest.fixture(params=[5_000, 20_000])
def small(request, monkeypatch):
    """Partitions of this many bytes."""
    monkeypatch.setattr(partitions, "PARTITION_BYTES", request.param)
    monkeypatch.setattr(blocks_sizes, "PAGE_BYTES", request.param // 8)
    return request.param


@pytest.mark.parametrize("seed", range(3))
def test_rows_come_back_in_the_order_of_slices(seed, small):
    shape = shape_of(hopping(7), SOURCES)
    made = random_blocks(seed, shape)
    together = InOrder(shape, made)
    assert together.block is None
    found = list(together.parts())
    for part in found:
        part.check(shape)
    assert all(a.index[-1] < b.index[0] for a, b in pairwise(found))
    whole = fold(shape, made)
    assert sorted(row for part in found for row in shown(shape, part)) == sorted(shown(shape, whole))
    assert sorted(shown(shape, together.between(20, 90))) == sorted(shown(shape, whole.between(20, 90)))
    together.close()


@pytest.mark.parametrize("seed", range(3))
def test_windows_do_not_depend_on_partitions(seed, small):
    """To the last bit, whether keys are apart or the windows of one key too."""
    shape = shape_of(hopping(7), SOURCES)
    made, trees = random_blocks(seed, shape), ["recompute", "three_layer", "recompute", "three_layer"]
    expected = results(shape, assemble(shape, trees, fold(shape, made), 3, 250))
    got, count = {}, 0
    for partition in partitions.key_partitions(shape, [made[:3], made[3:]], 3, 250):
        rows = results(shape, assemble(shape, trees, fold(shape, partition.blocks), partition.first, partition.end))
        assert not rows.keys() & got.keys()
        got, count = got | rows, count + 1
    assert count > 1
    assert got == expected


EMISSIONS = [
    on_close(),
    on_close(corrections=True, old=True),
    on_update(),
    on_update(latest_only=True),
    on_change(drained=True),
    early(records=3),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(1, 30))
@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_streams_are_right_whatever_fits_into_memory(emission, seed, monkeypatch):
    """Jumps of the watermark over many windows and steps over few; nothing is kept in the process."""
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 6_000)
    monkeypatch.setattr(blocks_sizes, "PAGE_BYTES", 600)
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 100)
    monkeypatch.setattr(state_memory, "KEPT_BYTES", 0)
    rng = random.Random(seed)
    kind = Even.of(rng.choice([4, 9]), 1) if seed % 3 else Even.of(7, 2)
    stream = Scenario(kind, emission, 3_000 if emission.fires_late else 0, results=SOURCES)
    now, most, spilled = 0, rng.choice([8, 25]), []
    put = partitions.SpillFile.put
    monkeypatch.setattr(partitions.SpillFile, "put", lambda self, block: spilled.append(len(block)) or put(self, block))
    for _ in range(6):
        now += rng.choice([1, 3, 25])
        records = [((now - rng.choice([0, 1, 4])) * 1000, rng.randrange(most), rng.randrange(99)) for _ in range(80)]
        stream.step([record for record in records if record[0] >= 0], rng.choice([0, now - 2]))
    stream.drain()
    assert spilled or isinstance(emission, OnUpdateLatest), (
        "something did not fit; of the newest windows there may be too few"
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("emission", [on_update(), on_update(latest_only=True), early(records=3)], ids=str)
def test_what_a_process_holds_is_taken_a_few_keys_at_a_time(emission, monkeypatch):
    """It is in memory in any case, so that nothing of it is spilled."""
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 8_000)
    taken = []

    def counted(*arguments):
        found = list(partitions.in_memory(*arguments))
        taken.append(len(found))
        return found

    monkeypatch.setattr(engines_slices, "in_memory", counted)
    rng, stream = random.Random(5), Scenario(Even.of(9, 1), emission, results=SOURCES)
    for now in range(20):
        records = [
            (max(0, now - rng.choice([0, 1, 4])) * 1000, rng.randrange(50), rng.randrange(99)) for _ in range(120)
        ]
        stream.step(records, max(0, now - 4))
    stream.drain()
    assert max(taken) > 1


def test_nodes_made_anew_a_few_slices_at_a_time_hold_each_row_once(monkeypatch):
    """Behind a jump, in a close of several windows: some steps are of nothing but slices that enter in it."""
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 1500)
    monkeypatch.setattr(closing, "PARTITION_BYTES", 1)
    stream, at = Scenario(Even.of(15, 1), on_close(), results=("sum", "floats")), 0
    for watermark in (*range(0, 8), 100, *range(108, 140, 8)):
        ahead = watermark + 12
        stream.step(evenly(stream.kind.window.family, range(at, ahead), keys=2), watermark)
        at = ahead
    stream.drain()


def test_a_window_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 20_000)
    monkeypatch.setattr(partitions, "WINDOW_BYTES", 20_000)
    monkeypatch.setattr(blocks_sizes, "PAGE_BYTES", 2_000)
    shape = shape_of(hopping(6), cases("joined"))
    for length, fits in ((900, True), (5_000, False)):
        made = [block_of(shape, cases("joined"), [(index * 1000, 7, "x" * length)], pa.string()) for index in range(60)]
        found = partitions.key_partitions(shape, [made], 3, 50)
        if fits:
            assert sum(partition.end - partition.first for partition in found) == 47
            continue
        with pytest.raises(
            TooLarge,
            match=r"take at most 0.0191 MiB together; got 0.0\d+ MiB for key \(7,\)",
        ):
            list(found)


# --- bytes of rows ---------------------------------------------------------------------------------------------------

LONG = 12 << 10


def joining(kind):
    init = "" if kind == "string" else b""
    return Case(Aggregate(lambda: init, lambda acc, v: max(acc, v), max), max)


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_pages_have_their_bytes_however_unequal_the_partials_are(kind):
    shape = shape_of(hopping(3), [joining(kind)])
    rng = random.Random(0)
    lengths = [rng.choice([1, 100, LONG]) for _ in range(2_000)]
    lengths[500], lengths[1501] = 3 << 20, 5 << 20
    values = pa.array(["x" * length for length in lengths]).cast(pa.string() if kind == "string" else pa.binary())
    slices, codes = np.arange(2_000) // 10, np.arange(2_000) % 10
    block = from_records(shape, slices, codes, pa.table({"k0": np.arange(10)}), [[values]])
    pages = list(parts(shape, block))
    sizes = [[lengths[int(s) * 10 + int(k)] for s, k in zip(page.index, page.keys, strict=True)] for page in pages]
    assert sum(map(len, sizes)) == 2_000
    assert all(sum(each) <= blocks_sizes.PAGE_BYTES or len(each) == 1 for each in sizes)
    assert len(pages) < 2 + 2 * sum(lengths) / blocks_sizes.PAGE_BYTES


def test_text_keys_of_two_thousand_characters_count():
    shape = shape_of(hopping(3), cases("rows"), ("string",))
    names = pa.table({"k0": [f"{i:02000d}" for i in range(5_000)]})
    rows = np.arange(5_000)
    block = from_records(shape, np.zeros(5_000, np.int64), rows, names, [[pa.array(rows)]])
    assert max(len(page) * 2_000 for page in parts(shape, block)) <= blocks_sizes.PAGE_BYTES
    assert memory(shape, block) > 5_000 * 2_000


def test_a_partial_that_no_page_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(blocks_sizes, "ROW_BYTES", 1_000)
    shape = shape_of(hopping(3), cases("joined"))
    block = block_of(shape, cases("joined"), [(0, 1, "a"), (1000, 2, "b" * 2_000)], pa.string())
    with pytest.raises(
        TooLarge, match=r"less than .* GiB; got 2,0\d\d bytes for key \(2,\) in slice .*, 2\d+ of them `result0`"
    ):
        list(parts(shape, block))


# --- the first stage and frames --------------------------------------------------------------------------------------


def long_partials(count):
    """A rows aggregate whose partials are binaries of 12 KiB, of records that are small."""
    aggregate = Aggregate(
        lambda: bytes(LONG),
        lambda acc, v: v.to_bytes(8, "big") + bytes(LONG - 8),
        lambda a, b: max(a, b),
    )
    return Case(aggregate, None), pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(count) * 1000, pa.timestamp("us")),
            pa.array(np.arange(count) % 97),
            pa.array(np.arange(count)),
        ],
        ["time", "k0", "v0"],
    )


def test_long_partials_are_folded_shipped_stored_and_put_out_a_few_at_a_time(monkeypatch):
    """1,500 records of 8 bytes are 18 MiB of partials: batches, pages and frames keep to a bound of 2 MiB."""
    case, batch = long_partials(1_500)
    bound = 2 << 20
    shape = shape_of(hopping(4), [case])
    made = []
    monkeypatch.setattr(preaggregate, "CHUNK_BYTES", bound)
    monkeypatch.setattr(preaggregate, "FIRST_ROWS", 10)
    monkeypatch.setattr(blocks_sizes, "PAGE_BYTES", bound // 4)
    monkeypatch.setattr(partitions, "PARTITION_BYTES", bound)
    monkeypatch.setattr(closing, "PARTITION_BYTES", bound)
    monkeypatch.setattr(matrix, "ASSEMBLY_BYTES", bound)
    monkeypatch.setattr(output, "FRAME_BYTES", bound)
    stage = preaggregate.PreAggregate(shape, ((0,),), (0, 1))
    folded = preaggregate.from_records
    monkeypatch.setattr(preaggregate, "from_records", lambda *given: made.append(folded(*given)) or made[-1])
    shipped = [row for rows in stage([batch]) for row in rows.to_pylist()]
    assert max(memory(shape, block) for block in made) <= bound
    found = [codec.decode(shape, row["block"]) for row in shipped]
    assert max(memory(shape, page) for page in found) <= bound // 4
    bucket = SlicedBucket(shape, ["three_layer"], 0, FINGERPRINT, MemoryStore())
    bucket.accept(found)
    assert not list(bucket.close(moment(0)))
    bucket = SlicedBucket(shape, ["three_layer"], 0, FINGERPRINT, bucket.pages.store)
    rows = set()
    for windows in bucket.close(moment(10**6)):
        for some in output.framed(shape, windows):
            assert len(some) * LONG <= bound
            values = [int.from_bytes(item[:8], "big") for item in some.partials[0][0]]
            keys = some.names["k0"].take(pa.array(some.keys)).to_pylist()
            rows |= set(zip(some.windows.tolist(), keys, values, strict=True))
    assert rows == {(w, v % 97, v) for v in range(1_500) for w in range(v - 3, v + 1)}


# --- peaks -----------------------------------------------------------------------------------------------------------

RUN = """
import resource, sys, tempfile
import numpy as np, pyarrow as pa
from oracle import FINGERPRINT, cases, hopping, moment, shape_of
from slicing import on_change, on_close, on_update
from slicing.assembly.trees import matrix
from slicing.assembly import partitions
from slicing.content import sizes
from slicing.engines.sliced import closing
from slicing.state import bucket_cache as memory
from slicing.content.block import Block
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.triggers.trigger import CHANGED, CLOSING
from test_memory import DiskStore

emission, tree, keys, n, ahead, bound = eval(sys.argv[1]), *sys.argv[2:3], *map(int, sys.argv[3:7])
if bound:
    matrix.ASSEMBLY_BYTES = closing.PARTITION_BYTES = partitions.PARTITION_BYTES = bound
    closing.FRAME_ROWS, sizes.PAGE_BYTES, memory.KEPT_BYTES = bound // 64, bound // 8, bound
shape = shape_of(hopping(n), cases("sum" if tree == "two_layer" else "floats"))
names = pa.table({"k0": np.arange(keys) * 7919})

def block(first, end):
    slices, codes = np.repeat(np.arange(first, end), keys), np.tile(np.arange(keys), end - first)
    ones = np.ones(len(slices), np.int64)
    columns = [0 * ones, slices % 1000, ones] if tree == "two_layer" else [slices * 0.5]
    return Block(slices, codes, names, ones, [columns], [None])

def step(rows, watermark, emission=on_close()):
    bucket = SlicedBucket(shape, [tree], 0, FINGERPRINT, store, emission)
    bucket.accept([rows])
    return sum(map(len, bucket.close(moment(watermark))))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

with tempfile.TemporaryDirectory() as directory:
    store, each = DiskStore(directory), max(1, 50_000 // keys)
    for first in range(0, n, each):
        end = min(n, first + each)
        step(block(first, end), 0 if ahead else end)
    fed, rows = peak(), step(block(n, n + 1), 2 * n if emission.asks & {CLOSING, CHANGED} else n // 2, emission)
print(fed, peak(), rows)
"""


class DiskStore:
    """A `Store` whose pages take no memory."""

    def __init__(self, directory):
        self.directory, self.text = Path(directory), None

    def header(self):
        return self.text

    def put_header(self, text):
        self.text = text

    def get(self, page):
        return (self.directory / page).read_bytes().decode()

    def put(self, page, text):
        (self.directory / page).write_bytes(text.encode())

    def remove(self, page):
        (self.directory / page).unlink()


def peaks(*arguments):
    """MiB before and after the jump, and the windows that went out, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": python_path()}
    command = [sys.executable, "-c", RUN, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["two_layer", pytest.param("three_layer", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "emission",
    ["on_close()", *(pytest.param(each, marks=pytest.mark.long) for each in ("on_change()", "on_update()"))],
)
@pytest.mark.parametrize("ahead", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_jump_takes_a_few_partitions_however_much_is_stored(emission, tree, ahead):
    """A million rows, 50 MiB in memory; what was fed ahead waits to enter when the watermark jumps."""
    fed, most, rows = peaks(emission, tree, 2_000, 500, ahead, 2 << 20)
    assert rows
    assert most - fed <= 40


@pytest.mark.long
@pytest.mark.parametrize("ahead", [1, 0])
@pytest.mark.parametrize("tree", ["two_layer", "three_layer"])
@pytest.mark.parametrize("emission", ["on_close()", "on_change()", "on_update()"])
def test_a_jump_takes_at_most_half_a_gibibyte(emission, tree, ahead):
    _, most, _ = peaks(emission, tree, 20_000, 600, ahead, 0)
    assert most <= 512
