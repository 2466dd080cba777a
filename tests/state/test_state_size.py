"""What a bucket reads, writes and keeps over many window lengths, with late records and keys that come and go."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from oracle import FINGERPRINT, CountingStore, cases, hopping, moment, shape_of

from slicing.assembly.choice import choose
from slicing.content.block import encode_keys
from slicing.content.codec import decode_text, encode_text
from slicing.content.folding import from_records
from slicing.content.packing import unsealed
from slicing.engines.sliced.bucket import SlicedBucket

LATE = 0.05
KEYS = 200


@dataclass
class Figures:
    """One value for each micro-batch, unless said otherwise."""

    pages_read: list = field(default_factory=list)  # of the micro-batches in which a window closed
    header: list = field(default_factory=list)  # characters
    pages: list = field(default_factory=list)
    bytes: list = field(default_factory=list)
    encoded: int = 0  # characters of all micro-batches' records, encoded once each
    written: int = 0


def records_of(rng, family, now, count, span=1):
    """Times, keys and values: 5 % late by 5 slices on average; half the keys live for one window length only.

    Those on time came in the last `span` milliseconds.
    """
    on_time = rng.integers(0, span, count)
    delay = np.where(rng.random(count) < LATE, rng.exponential(5 * family.advance, count), on_time)
    times = (now - delay).astype(np.int64)
    keys = rng.integers(0, KEYS, count)
    lives = times // family.size
    return times, np.where(keys % 2, KEYS + keys + KEYS * lives, keys), rng.integers(-(10**6), 10**6, count)


def run(family, slices, micro_batches, count):
    """A bucket of a sum in a two-layer tree and one of a double in a three-layer one, `micro_batches` per slice."""
    chosen = cases("sum", "floats")
    shape, store, rng, figures = shape_of(family, chosen), CountingStore(), np.random.default_rng(0), Figures()
    trees = [choose(kernel, family) for kernel in shape.kernels]
    assert set(trees) == {"two_layer", "three_layer"}
    span = 1 if micro_batches >= 1 else int(family.advance / micro_batches)  # all slices have records
    for step in range(int(slices * micro_batches)):
        now = family.size + step * family.advance // micro_batches
        times, keys, values = records_of(rng, family, now, count, span)
        codes, names = encode_keys(pa.table({"k0": keys}))
        arguments = [[case.argument(pa.array(values))] for case in chosen]
        block = from_records(shape, family.slice_at(times), codes, names, arguments)
        bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store)
        reads, fired = store.reads, bucket.head.families[0].next_to_fire
        bucket.accept([block])
        list(bucket.close(moment(now // 1000)))
        figures.encoded += len(encode_text(shape, block))
        figures.header.append(len(store.text))
        figures.written += len(store.text)
        figures.pages.append(len(store.pages))
        figures.bytes.append(sum(map(len, store.pages.values())))
        if bucket.head.families[0].next_to_fire > fired:
            figures.pages_read.append(store.reads - reads)
    figures.written += store.bytes_written
    return figures, shape, store, bucket.head


def check_flat(figures, length):
    """From the 3rd to the 10th window length nothing grows; the largest values are compared, as all goes up and down.

    `length` is that of a window in micro-batches.
    """
    for values in (figures.header, figures.pages, figures.bytes):
        most = [max(values[i * length : (i + 1) * length]) for i in range(10)]
        assert max(most[2:]) <= 1.1 * most[2]


def check_pages_read(figures):
    """On average; a close in which a slice group begins to leave reads more, for all closes of that group."""
    print(f"pages per close: {np.mean(figures.pages_read):.1f} on average, {max(figures.pages_read)} at most")
    assert np.mean(figures.pages_read) <= 16


def keys_in_state(shape, store, head):
    """All keys of all pages; a page of a cache holds one of the two kernels."""
    found = set()
    for name, text in store.pages.items():
        caches = [key.split()[0] for key, entries in head.lists.items() if name in {f"p{e[0]}" for e in entries}]
        chosen = {"two": (0,), "three": (1,)}[caches[0]] if caches else (0, 1)
        found |= set(decode_text(shape.select(chosen), unsealed(text)).names["k0"].to_pylist())
    return found


def check_idle(shape, store, head):
    """Of the keys that live for one window length only those of open windows are left."""
    family = shape.family
    oldest = family.window_start(head.families[0].next_to_fire) // family.size
    keys = keys_in_state(shape, store, head)
    assert len(keys) > KEYS, "some of two lives"
    assert all((key - KEYS) // KEYS >= oldest for key in keys if key >= KEYS and key % 2)


def test_state_does_not_grow_and_forgets_idle_keys():
    figures, shape, store, head = run(hopping(24, 60_000), slices=252, micro_batches=3, count=300)
    check_flat(figures, 72)
    check_idle(shape, store, head)
    assert max(figures.header) <= 16 << 10


def test_pages_and_bytes_at_sixty_micro_batches_per_slice():
    figures, *_ = run(hopping(60, 60_000), slices=9, micro_batches=60, count=1000)
    assert len(figures.pages_read) == 9
    check_pages_read(figures)
    assert figures.written <= 6 * figures.encoded
    assert max(figures.header) <= 16 << 10


class NamingStore(CountingStore):
    """Knows which pages were read and written."""

    def __init__(self):
        super().__init__()
        self.names, self.new = [], []

    def get(self, page):
        self.names.append(page)
        return super().get(page)

    def put(self, page, text):
        self.new.append(page)
        super().put(page, text)


def test_a_close_of_many_windows_reads_no_page_twice():
    """Both trees look at the slices that leave. Slice groups that enter as a whole are written once and not read."""
    family, chosen, rng = hopping(60, 60_000), cases("sum", "floats"), np.random.default_rng(0)
    shape, store = shape_of(family, chosen), NamingStore()
    trees = [choose(kernel, family) for kernel in shape.kernels]
    for step in range(12):
        start = family.size + 20 * step * family.advance
        codes, names = encode_keys(pa.table({"k0": rng.integers(0, KEYS, 20_000)}))
        arguments = [[case.argument(pa.array(rng.integers(0, 100, 20_000)))] for case in chosen]
        times = rng.integers(start, start + 20 * family.advance, 20_000)
        bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store)
        bucket.accept([from_records(shape, family.slice_at(times), codes, names, arguments)])
        store.names.clear()
        store.new.clear()
        closed = len(list(bucket.close(moment(start // 1000))))
        assert len(store.names) == len(set(store.names))
        assert not set(store.names) & set(store.new)
        assert closed or step < 1


@pytest.mark.long
def test_an_hour_by_the_minute_for_ten_hours():
    figures, shape, store, head = run(hopping(60, 60_000), slices=630, micro_batches=60, count=1000)
    check_flat(figures, 3600)
    check_idle(shape, store, head)
    check_pages_read(figures)
    assert figures.written <= 6 * figures.encoded
    assert max(figures.header) <= 16 << 10


@pytest.mark.long
def test_a_week_by_the_minute_for_ten_weeks():
    """One micro-batch for ten slices: with sixty for each slice it would be six million."""
    window, tenth = hopping(10_080, 60_000), Fraction(1, 10)
    figures, shape, store, head = run(window, slices=105_840, micro_batches=tenth, count=200)
    check_flat(figures, 1_008)
    check_idle(shape, store, head)
    assert max(figures.header) <= 16 << 10


@pytest.mark.long
def test_a_week_by_the_minute_at_sixty_micro_batches_per_slice():
    figures, *_ = run(hopping(10_080, 60_000), slices=300, micro_batches=60, count=1000)
    check_pages_read(figures)
    assert figures.written <= 6 * figures.encoded
    assert max(figures.header) <= 16 << 10
