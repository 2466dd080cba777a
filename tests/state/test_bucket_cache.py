"""What a worker process keeps takes as much memory as it is counted as, or its bound would not be kept."""

import gc
import tracemalloc

import pyarrow as pa
import pytest
from oracle import FINGERPRINT, block_of, cases, hopping, moment, shape_of

from slicing.assembly.choice import choose
from slicing.content.codec import decode, encode
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.state import bucket_cache as memory
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_update

SLICES, KEYS = 4, 400


def held():
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "names", [("sum",), ("floats", "variance"), ("rows",), ("joined",), ("highest", "most")], ids=str
)
@pytest.mark.parametrize("latest_only", [False, True])
def test_what_is_kept_is_counted_as_it_is(names, latest_only, monkeypatch):
    monkeypatch.setattr(memory, "_entries", type(memory._entries)())
    chosen = cases(*names)
    shape, store = shape_of(hopping(2), chosen), MemoryStore()
    tracemalloc.start()
    try:
        for batch in range(3):
            made = [(1000 * i, k, 1000 * i + k + batch) for i in range(SLICES) for k in range(batch, KEYS)]
            block = decode(shape, encode(shape, block_of(shape, chosen, made)))
            trees = [choose(kernel, shape.family) for kernel in shape.kernels]
            bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store, on_update(latest_only=latest_only))
            bucket.accept([block])
            for _ in bucket.close(moment(0)):
                pass
        del made, block, bucket, _
        (counted,) = [entry.slices_bytes + entry.derived_bytes for entry in memory._entries.values()]
        before = held()
        memory._entries.clear()
        true = before - held()
    finally:
        tracemalloc.stop()
    assert true > 40 * KEYS
    assert 0.9 * true <= counted <= 1.5 * true, counted / true
