"""State of results of one column: golden files, and how they were made.

In `unshared.json.xz` each result has fields of its own, as before they were shared, in `shared.json.xz` they are shared
as they were first. Run it with the name of the file and the code of the commit that is to write it: bb8d105, and the
one that brought sharing::

    mkdir ../old && git archive bb8d105 | tar -x -C ../old
    PYTHONPATH=$PWD/../old:$PWD/../old/tests python tests/golden/sharing.py unshared
"""

import json
import lzma
import sys
from inspect import signature
from pathlib import Path

import numpy as np
import pyarrow as pa
from oracle import MemoryStore, moment

import combinators as C
from slicing import hopping
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import choose
from slicing.content.block import Shape
from slicing.content.codec import encode
from slicing.content.records import Records
from slicing.stages import execution_plan as strategies
from slicing.stages.output import flat_windows
from slicing.state.format.fingerprint import PARTIALS, fingerprint_of
from slicing.triggers.emission import on_close
from slicing.windows.families.even import Even

HERE = Path(__file__).parent
SEED, SEEN = 11, 15
KINDS = {"x": "double", "n": "bigint", "s": "string", "m": "decimal(12,2)", "paid": "boolean"}
SECOND = 1_000_000


def _strategy(shape, trees, arguments, slices):
    """The strategy, as the commit that runs has it."""
    window = hopping(f"{slices} seconds", "1 second")
    if not hasattr(strategies, "strategy"):
        from slicing.stages.support_of import support_of

        support, asked = support_of(window), strategies.Aggregation(shape, trees, arguments)
        return (getattr(support, "execution_plan", None) or support.strategy)(asked)
    more = (window,) if "window" in signature(strategies.strategy).parameters else ()
    return strategies.strategy(shape, trees, arguments, *more)


def five(column="x"):
    """The results of the benchmark."""
    return {
        "mean": C.mean(column),
        "variance": C.variance(column),
        "stddev": C.stddev(column),
        "count": C.count(column),
        "sum": C.sum(column),
    }


class Line:
    """A stream of one bucket whose results are these; `plain` lets each keep its own fields."""

    def __init__(self, results, slices=20, emission=None, plain=False, store=None):
        names = list(KINDS)
        kernels = tuple(
            kernel(name, bound.resolve(tuple(KINDS[column] for column in bound.columns)))
            for name, bound in results.items()
        )
        arguments = tuple(tuple(map(names.index, bound.inputs)) for bound in results.values())
        shape = Shape(Even(slices * SECOND, SECOND, 0), (Field("key", "bigint"),), kernels)
        trees = tuple(choose(each, shape.family) for each in kernels)
        made = strategies.Sliced(shape, trees, arguments) if plain else _strategy(shape, trees, arguments, slices)
        columns = [list(bound.inputs) for bound in results.values()]
        self.results, self.execution_plan, self.emission = results, made, emission or on_close()
        self.fingerprint = fingerprint_of(shape, [PARTIALS] * len(kernels), columns, "1 over 1 shuffle partitions")
        self.store = store or MemoryStore()

    def bucket(self):
        """The bucket, from its store."""
        return self.execution_plan.bucket(0, self.fingerprint, self.store, self.emission)

    def blocks(self, records):
        """What the first stage ships, as the second one reads it."""
        stage = self.execution_plan.first_stage((0,))
        times = np.array([record[0] for record in records], np.int64)
        slices = stage.shape.family.slice_at(times)
        key = pa.table({"k0": pa.array([record[1] for record in records], pa.int64())})
        values = [pa.array([record[2][name] for record in records], arrow_type(kind)) for name, kind in KINDS.items()]
        block = stage._block(Records(slices, times, key, values))
        return [self.execution_plan.decode(encode(stage.shape, block))]

    def step(self, records, watermark, now=0):
        """The rows of a micro-batch."""
        bucket, shape = self.bucket(), self.execution_plan.shape
        bucket.accept(self.blocks(records) if records else [])
        return [
            row for windows in bucket.close(moment(watermark, now)) for row in rows_of(shape, windows, self.emission)
        ]


def rows_of(shape, windows, emission):
    """Windows as texts, sorted."""
    rows = flat_windows(shape, windows, emission).to_pylist()
    return sorted(map(repr, rows))


def micro_batches(seed, count=24):
    """Records in a little disorder: their times, keys and values; the watermark and the clock."""
    rng, found, watermark = np.random.default_rng(seed), [], 0
    for number in range(count):
        records = []
        for _ in range(int(rng.integers(0, 12))):
            time = 100 * SECOND + number * 2 * SECOND - int(rng.exponential(2)) * SECOND
            value = {
                "x": [None, float("nan"), 1e16, *rng.normal(size=9).tolist()][int(rng.integers(0, 12))],
                "n": [None, 2**62, -3, 7][int(rng.integers(0, 4))],
                "s": [None, "a", "b", "zz"][int(rng.integers(0, 4))],
                "m": None,
                "paid": [None, True, False][int(rng.integers(0, 3))],
            }
            records.append([time, int(rng.integers(0, 3)), value])
        found.append([records, watermark, 1000 * number])
        watermark = max([watermark, *(record[0] // 1000 - 3000 for record in records)])
    return found


def run(line, batches):
    """The rows of each micro-batch."""
    return [line.step(*batch) for batch in batches]


def main():
    """Write a file, but never again."""
    file = HERE / f"{sys.argv[1]}.json.xz"
    if file.exists():
        raise SystemExit(f"{file} is there; state that has landed is not written again")
    line, batches = Line(five()), json.loads(json.dumps(micro_batches(SEED)))
    run(line, batches[:SEEN])
    content = {"header": line.store.text, "pages": line.store.pages, "batches": batches[SEEN:]}
    file.write_bytes(lzma.compress(json.dumps(content).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
