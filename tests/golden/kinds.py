"""State of several windows in one bucket and of windows that never close: a golden file, and how it was made.

`kinds.json.xz` has for each scenario the micro-batches, the header and pages after two thirds of them. It was written
by the commit that brought it, in format 7, and is not written again::

    PYTHONPATH=$PWD:$PWD/tests python tests/golden/kinds.py
"""

import json
import lzma
import random
from functools import partial
from pathlib import Path

from oracle import CASES, shape_of
from test_several import Together, sets, stream
from test_unbounded import FAMILY, records

from slicing.assembly.choice import choose
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.engines.unbounded.bucket import UnboundedBucket
from slicing.state.format.fingerprint import PARTIALS, fingerprint_of
from slicing.state.store import MemoryStore
from slicing.triggers.emission import early, on_change, on_close, on_update

HERE = Path(__file__).parent
CORRECTED = on_close(corrections=True, old=True)

SEVERAL = {
    "one closes seldom": ("seldom beside always", on_close(), 0, False),
    "corrected": ("longest in the middle", CORRECTED, 10, False),
    "cumulating": ("cumulating", on_close(), 0, False),
    "a zone": ("a zone", on_update(), 0, False),
    "ticks": ("other edges", early(every="20 milliseconds"), 0, False),
    "side by side": ("ends together", on_close(), 0, True),
    "side by side, changed": ("ends together", on_change(drained=True), 0, True),
}
"""By name: windows of `test_several.sets`, emission, grace in steps, and whether they are side by side."""

UNBOUNDED = {
    "never closing": (on_update(), None),
    "never closing, idle": (on_update(), 7000),
    "never closing, counted": (early(records=5), None),
}
"""By name: emission and `ttl` in microseconds."""


class Line:
    """The bucket of a scenario; a step gives what goes out, in any form that can be compared."""

    def __init__(self, name, text=None, pages=()):
        self.store, cases = MemoryStore(), [CASES[each] for each in ("sum", "joined", "highest")]
        self.store.text, self.store.pages = text, dict(pages)
        if name in SEVERAL:
            which, emission, grace, wide = SEVERAL[name]
            families, _, step = sets()[which]
            self.made = Together(families, cases, 0, emission, wide)
            shape = self.made.shape
            over = [shape.over(family) for family in shape.family.families]
            trees = [choose(kernel, each.family) for each in over for kernel in each.kernels]
            options = self.store, emission, wide
            self.made.bucket = partial(SlicedBucket, shape, trees, grace * step, fingerprint(shape), *options)
        else:
            emission, ttl = UNBOUNDED[name]
            self.made = Together([FAMILY], cases, 0, emission)
            self.made.shape = shape = shape_of(FAMILY, cases)
            self.made.family = FAMILY
            self.made.bucket = partial(UnboundedBucket, shape, fingerprint(shape), self.store, emission, ttl)

    def step(self, came, watermark, clock):
        """The rows of a micro-batch."""
        found, _ = self.made.step([tuple(record) for record in came], watermark, clock)
        self.made.bucket().check()
        return found


def fingerprint(shape):
    """What state depends on."""
    columns = [[f"value{i}"] for i in range(len(shape.kernels))]
    return fingerprint_of(shape, [PARTIALS] * len(columns), columns, "1 over 1 shuffle partitions")


def micro_batches(name):
    """Records, the watermark and the clock of each."""
    rng = random.Random(name)
    if name in SEVERAL:
        _, begin, step = sets()[SEVERAL[name][0]]
        return [[came, watermark, clock] for came, watermark, clock in stream(rng, begin, step)]
    return [[records(rng), 0, 3 * number] for number in range(30)]


def main():
    """Write the file, but never again."""
    file, found = HERE / "kinds.json.xz", {}
    if file.exists():
        raise SystemExit(f"{file} is there; state that has landed is not written again")
    for name in (*SEVERAL, *UNBOUNDED):
        line, batches = Line(name), micro_batches(name)
        seen = len(batches) * 2 // 3
        for each in batches[:seen]:
            line.step(*each)
        found[name] = {"seen": seen, "batches": batches, "header": line.store.text, "pages": line.store.pages}
    file.write_bytes(lzma.compress(json.dumps(found).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
