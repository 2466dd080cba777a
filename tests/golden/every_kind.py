"""State of every kind of windows under every emission: golden files, and how they are made.

`every<n>.json.xz` has the micro-batches of each kind, and for each scenario the header and pages of a bucket after two
thirds of them, and the rows and late records that the code which wrote it gave in the rest. The tests go on from the
header and pages with the code as it is now, and compare row by row.

Run it with the code of the commit that is to write the state, format 7 being that of b9f7d09::

    git worktree add ../old b9f7d09
    cd ../old && PYTHONPATH=$PWD:../slicing/tests python ../slicing/tests/golden/every_kind.py
    git worktree remove --force ../old

A file that is there is not written again: state of a format that has landed stays as it is.
"""

import json
import lzma
import random
from importlib import import_module, util
from pathlib import Path

import pyarrow as pa

import combinators as C
from slicing import (
    Aggregate,
    by_edges,
    counting,
    cumulating,
    early,
    hopping,
    on_change,
    on_close,
    on_update,
    session,
    sliding,
    tumbling,
    unbounded,
)


def _module(*names):
    """The first of some modules that the code has."""
    return import_module(next(name for name in names if _is_there(name)))


def _is_there(name):
    try:
        return util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


_fields = _module("slicing.aggregates.fields")
_kernels = _module("slicing.aggregates.kernels")
_choice = _module("slicing.assembly.choice")
_blocks = _module("slicing.content.block", "slicing.blocks.block")
_time = _module("slicing.triggers.trigger", "slicing.engines.engine")
_moment = getattr(_time, "MicroBatchTime", None) or _time.Moment
_header = _module("slicing.state.format.header", "slicing.state.header")
_fingerprint = _module("slicing.state.format.fingerprint", "slicing.state.fingerprint")
_store = _module("slicing.state.store")
_plans = _module("slicing.stages.execution_plan", "slicing.spark.strategy")
_output = _module("slicing.stages.output", "slicing.spark.output")
_support = _module("slicing.stages.support_of", "slicing.spark.kinds")
_sets = _module("slicing.windows.sets", "slicing.windows.many")
_stepped = _module("slicing.windows.families.stepped", "slicing.windows.stepped")
_local = _module("slicing.windows.time.local", "slicing.windows.local")
_zones = _module("slicing.windows.time.zones", "slicing.windows.zones")
_window = _module("slicing.windows.window")

HERE = Path(__file__).parent
SECOND, HOUR = 1_000_000, 3_600_000_000
BEGIN = 1_774_656_000 * SECOND
"""The day before summer time begins in Berlin."""
KINDS = {"n": "bigint", "s": "string", "gap": "bigint"}
BATCHES, SEEN = 36, 24

_hours = (1_743_296_400, 1_761_440_400, 1_774_746_000, 1_792_890_000)
BERLIN = _zones.Zone("Europe/Berlin", _hours, (3600, 7200, 3600, 7200, 3600))
"""Written out, as time zone data may change."""


def _in_berlin(days):
    """Windows of so many days by the clock of Berlin that begin every day."""
    return _window.Timed(_stepped.Stepped(_local.Local("day", 1, BERLIN), 1, days), "by the clock of Berlin")


def _edges():
    starts = [BEGIN + at * SECOND for at in range(0, 90, 7)]
    return by_edges(starts, [start + (9 + at % 5) * SECOND for at, start in enumerate(starts)])


def _set(*windows, **named):
    return _sets.windows_of_call(windows, named, long=False)


WINDOWS = {
    "hopping": (hopping("20 seconds", "1 second"), SECOND),
    "few slices": (hopping("6 seconds", "3 seconds", offset="1 second"), SECOND),
    "gaps": (hopping("3 seconds", "4 seconds", gaps=True), SECOND),
    "tumbling": (tumbling("5 seconds"), SECOND),
    "cumulating": (cumulating("24 seconds", step="2 seconds"), SECOND),
    "by edges": (_edges(), SECOND),
    "in a zone": (_in_berlin(3), 5 * HOUR),
    "several": (_set(hopping("12 seconds", "4 seconds"), tumbling("20 seconds")), SECOND),
    "several that end together": (_set(hopping("5 seconds", "1 second"), hopping("16 seconds", "1 second")), SECOND),
    "several in a zone": (_set(_in_berlin(1), hopping("12 hours", "6 hours")), 5 * HOUR),
    "side by side": (
        _set(short=hopping("5 seconds", "1 second"), long=hopping("16 seconds", "1 second")), SECOND
    ),
    "sessions": (session("4 seconds"), SECOND),
    "sessions, late by session": (session("4 seconds", late_by="session"), SECOND),
    "sessions of own gaps": (session(gap_column="gap"), SECOND),
    "sliding": (sliding("8 seconds"), SECOND),
    "sliding, left": (sliding("8 seconds", right=False), SECOND),
    "counting": (counting(6, 4), SECOND),
    "counting, idle": (counting(5, ttl="30 seconds"), SECOND),
    "unbounded": (unbounded(), SECOND),
    "unbounded, idle": (unbounded(ttl="20 seconds"), SECOND),
}  # fmt: skip
"""By name: the windows, and the step of the stream in microseconds."""

EMISSIONS = {
    "on close": on_close(),
    "corrections": on_close(corrections=True, old=True),
    "corrections, plain": on_close(corrections=True),
    "corrections, discarding": on_close(corrections=True, discarding=True),
    "on update": on_update(),
    "latest only": on_update(latest_only=True),
    "on change": on_change(drained=True),
    "early by ticks": early(every="7 seconds"),
    "early by records": early(records=5),
}
_ALL = tuple(EMISSIONS)
_CLOSE_TICKS = ("on close", "corrections", "on update", "early by ticks")
_SESSIONS = ("on close", "corrections, plain", "on update", "latest only", "early by ticks", "early by records")
_SLIDING = ("on close", "corrections", "corrections, discarding", "on update", "latest only")
_UNBOUNDED = ("on update", "early by ticks", "early by records")

COMBINED, SHARED, MIXED, EAGER = "combined", "shared", "mixed", "eager"

GOES = [
    ("hopping", COMBINED, _ALL),
    ("hopping", SHARED, _CLOSE_TICKS),
    ("hopping", MIXED, (*_CLOSE_TICKS, "on change")),
    ("few slices", EAGER, _ALL),
    ("few slices", COMBINED, _CLOSE_TICKS),
    ("gaps", COMBINED, _CLOSE_TICKS),
    ("tumbling", COMBINED, _ALL),
    ("cumulating", COMBINED, _ALL),
    ("by edges", COMBINED, _ALL),
    ("in a zone", COMBINED, _ALL),
    ("several", COMBINED, tuple(each for each in _ALL if each != "on change")),
    ("several that end together", COMBINED, ("on close", "on change", "latest only")),
    ("several in a zone", COMBINED, _CLOSE_TICKS),
    ("side by side", COMBINED, _ALL),
    ("side by side", SHARED, ("on close",)),
    ("sessions", COMBINED, _SESSIONS),
    ("sessions, late by session", COMBINED, ("on close", "corrections, plain")),
    ("sessions of own gaps", COMBINED, ("on close", "early by records")),
    ("sliding", COMBINED, _SLIDING),
    ("sliding", SHARED, ("on close", "corrections")),
    ("sliding, left", COMBINED, ("on close", "on update")),
    ("counting", COMBINED, ("on close",)),
    ("counting", EAGER, ("on close",)),
    ("counting, idle", COMBINED, ("on close",)),
    ("unbounded", COMBINED, _UNBOUNDED),
    ("unbounded, idle", COMBINED, _UNBOUNDED),
]
SCENARIOS = {
    f"{windows}, {results}, {emission}": (windows, results, emission)
    for windows, results, emissions in GOES
    for emission in emissions
}
"""By name: those of the windows, results and emission."""
BRIEF = [
    f"{windows}, {results}, {each}" for windows, results, all_ in GOES for each in dict.fromkeys(all_[:1] + all_[-1:])
]
"""Scenarios that show a change of the format; those of format 7 are all, as others wait for them."""


def _in_turns(every):
    """All windows with all their results, each under every so many-th of its emissions, the first in turns."""
    return [
        f"{windows}, {results}, {each}"
        for number, (windows, results, all_) in enumerate(GOES)
        for at, each in enumerate(all_)
        if (at - number) % min(every, len(all_)) == 0
    ]


IN_TURNS, ONCE = _in_turns(3), _in_turns(len(_ALL))
"""A third of the scenarios, and one of all windows with all their results."""


def _plus(a, b):
    return a[0] + b[0], a[1] + b[1]


def _minus(ab, a):
    return ab[0] - a[0], ab[1] - a[1]


def _squares(acc, n):
    return acc if n is None else (acc[0] + n * n, acc[1] + 1)


def _appended(acc, s):
    return f"{acc}{s}" if s else acc


def results_of(name):
    """The results of a scenario: made by trees, of shared fields, of records in their order, or of both."""
    own = Aggregate(lambda: (0, 0), _squares, _plus, _minus, lambda acc: acc[0], returns="bigint", nulls=True)
    joined = Aggregate(lambda: "", _appended, nulls=True)
    combined = {"total": C.sum("n"), "most": C.max("s"), "squares": own.on("n")}
    shared = {"mean": C.mean("n"), "total": C.sum("n"), "count": C.count("n")}
    eager = {"joined": joined.on("s")}
    return {COMBINED: combined, SHARED: shared, EAGER: eager, MIXED: combined | eager}[name]


class Line:
    """The bucket of a scenario; a step gives what is emitted, and how many records are late."""

    def __init__(self, name, text=None, pages=()):
        windows, results, emission = SCENARIOS[name]
        self.window, step = WINDOWS[windows]
        self.emission = EMISSIONS[emission]
        self.grace = 6 * step if "corrections" in str(self.emission) else 0
        bounds, columns = results_of(results), list(KINDS)
        kernels = tuple(
            _kernels.kernel(each, bound.resolve(tuple(KINDS[column] for column in bound.columns)))
            for each, bound in bounds.items()
        )
        arguments = tuple(tuple(map(columns.index, bound.inputs)) for bound in bounds.values())
        support = (getattr(_support, "support_of", None) or _support.kind_of_window)(self.window)
        kernels, arguments = support.kernels(kernels, arguments, True)
        family = self.window.family
        shape = _blocks.Shape(family, (_fields.Field("key", "bigint"),), kernels)
        over = [shape.over(each).family for each in family.families]
        trees = support.trees(tuple(_choice.choose(each, own) for own in over for each in kernels))
        values = tuple(_fields.Field(each, kind) for each, kind in KINDS.items())
        asked = _plans.Aggregation(shape, trees, arguments, True, values)
        self.execution_plan = (getattr(support, "execution_plan", None) or support.strategy)(asked)
        self.stage = self.execution_plan.first_stage((0,))
        contents = [
            _fingerprint.WINDOWS if tree == _choice.EAGER else _fingerprint.PARTIALS for tree in trees[: len(kernels)]
        ]
        bound = [[None if at < 0 else columns[at] for at in places] for places in arguments]
        self.fingerprint = _fingerprint.fingerprint_of(shape, contents, bound, "1 over 1 shuffle partitions")
        self.store = _store.MemoryStore()
        self.store.text, self.store.pages = text, dict(pages)

    def bucket(self):
        """The bucket, from its store."""
        return self.execution_plan.bucket(self.grace, self.fingerprint, self.store, self.emission)

    def shipped(self, records):
        """What the first stage ships."""
        names = ["time", "key", *(["own gap"] if getattr(self.window, "gap_column", None) else []), *KINDS]
        places = [0, 1, *([4] if len(names) > 5 else []), 2, 3, 4]
        types = {"s": pa.string()}
        arrays = [pa.array([each[at] for each in records], types.get(name, pa.int64())) for name, at in
                  zip(names, places, strict=True)]  # fmt: skip
        batch = pa.RecordBatch.from_arrays(arrays, names)
        return self.execution_plan.shipped(pa.Table.from_batches(self.stage([batch])).to_pydict())

    def step(self, records, watermark, clock):
        """The rows of a micro-batch as texts, and the late records: of all their windows, and of some."""
        bucket, shape, found = self.bucket(), self.execution_plan.shape, []
        late = (bucket.accept if hasattr(bucket, "accept") else bucket.add)(self.shipped(records))
        for frame in bucket.close(_moment(watermark * 1000, clock)):
            table = _output.flat_windows(shape, frame, self.emission, bucket.head.revision, self.execution_plan.wide)
            found += [json.dumps(list(row.values())) for row in table.to_pylist()]
        self.bucket().check()
        return [sorted(found), late.all, late.some]


def micro_batches(windows):
    """Records (time, key, n, s, gap), the watermark in milliseconds and the clock in microseconds of each."""
    rng, step, found, greatest = random.Random(windows), WINDOWS[windows][1], [], 0
    for number in range(BATCHES):
        records = [
            [
                BEGIN + int((2 * number + rng.random() * 3 - rng.expovariate(0.4)) * step),
                rng.choice([None, 1, 2]),
                rng.choice([None, *range(-9, 10)]),
                rng.choice([None, "a", "bb", "ccc", "z"]),
                rng.randrange(1, 6) * SECOND,
            ]
            for _ in range(rng.choice([0, 1, 2, 5, 9]))
        ]
        found.append([records, greatest, number * 3 * SECOND])
        greatest = max([greatest, *((record[0] - 2 * step) // 1000 for record in records)])
    return found


def stored(name, batches):
    """What a file holds of a scenario."""
    line = Line(name)
    for each in batches[:SEEN]:
        line.step(*each)
    state = {"header": line.store.text, "pages": dict(line.store.pages)}
    return {**state, "rest": [line.step(*each) for each in batches[SEEN:]]}


def main():
    """Write the file of the format that the code writes, but never again."""
    file = HERE / f"every{_header.FORMAT}.json.xz"
    if file.exists():
        raise SystemExit(f"{file} is there; state that has landed is not written again")
    streams = {windows: json.loads(json.dumps(micro_batches(windows))) for windows in WINDOWS}
    names = SCENARIOS if _header.FORMAT == 7 else BRIEF
    scenarios = {name: stored(name, streams[SCENARIOS[name][0]]) for name in names}
    content = json.dumps({"streams": streams, "scenarios": scenarios}, separators=(",", ":")).encode()
    file.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
