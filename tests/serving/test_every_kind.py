"""Values that were served of each kind of windows, against raw records: 1,000 random keys and instants of each mode.

Every micro-batch is in a new process, some records are late, and some micro-batches fail after their rows are written
and are repeated. A query is as it is, retains slices for instants of the last day, starts with a history, or gets more
results by a live change. Windows in zones have both days on which the clocks change.
"""

import random

import pytest
from serving.in_buckets import Served, Stream
from serving.test_as_of import CHANGES, SPACING
from serving.test_buckets import KEYS, some_record
from serving.test_failures import Fails
from serving.test_served import RESULTS, WINDOWS, check, micros
from streams import DAY, HOUR, MINUTE, START

from slicing import group_by, serve_to
from slicing.serving import Reader, store_of

KINDS = [(kind, begin) for kind in WINDOWS for begin in (CHANGES if kind in SPACING else [START])]
MODES = ["plain", "retain", "warm", "adapt"]
CASES = [(*case, mode) for case in KINDS for mode in MODES]
QUICK = [(*case, MODES[number % len(MODES)]) for number, case in enumerate(KINDS)]
FEW, MANY = 10, 60
"""How many micro-batches there are of a quick case, and of one with 1,000 instants."""
ASKED = {"plain": 25, "retain": 25, "warm": 40, "adapt": 40}
"""How many instants are asked for after a micro-batch: more where fewer windows are whole."""


def definition(kind, mode, results=RESULTS):
    windows = WINDOWS[kind][0]
    unnamed = [windows[""]] if "" in windows else []
    named = {name: window for name, window in windows.items() if name}
    asked = group_by("user").window(*unnamed, **named, time="ts", **({"long": True} if named else {}))
    asked = {"retain": lambda: asked.retain("5 days"), "adapt": lambda: asked.adapt("allow")}.get(mode, lambda: asked)()
    return asked.define(**{name: RESULTS[name] for name in results})


def feed(choice, kind, begin, batches):
    """Micro-batches over six days, or over sixteen hours for windows with short slices."""
    span = (6 * DAY if kind in SPACING else 16 * HOUR) // batches
    return [
        [
            some_record(choice, begin + number * span + choice.randint(0, span), choice.choice([HOUR, 2 * DAY]))
            for _ in range(8)
        ]
        for number in range(batches)
    ]


class Case:
    """A query of a kind in a mode, its store, and what a reader may be asked."""

    def __init__(self, folder, kind, begin, mode):
        self.mode, self.kind, self.choice = mode, kind, random.Random(f"{kind} {begin} {mode}")
        self.url, self.stream, self.since = f"sqlite:///{folder}/features.db", Stream(10 * MINUTE), 0
        self.served = Served(definition(kind, mode, ["n", "total"] if mode == "adapt" else RESULTS))
        self.whole = self.late = 0

    def edge(self, t, more=0):
        """The start of the slice that holds an instant, or of a later one."""
        cut = self.served.shape.family.cut
        return cut.slice_start(cut.slice_at(t) + more)

    def step(self, records):
        """Run a micro-batch; one in eight fails first. Records that no window takes are in no retained slice."""
        if self.mode == "retain" and self.stream.read:
            watermark = self.edge(max(each["ts"] for each in self.stream.read) - self.stream.delay)
            oldest = min(start(watermark) for start in WINDOWS[self.kind][1].values())
            records = [each for each in records if each["ts"] >= oldest]
        if self.choice.random() < 0.125:
            with pytest.raises(RuntimeError, match="the power is gone"):
                self.stream.step(self.served, serve_to(Fails(store_of(self.url), 0), keep="1 day"), records, fails=True)
        self.stream.step(self.served, serve_to(self.url, keep="1 day"), records)
        self.late += sum(each["ts"] < (self.stream.known or 0) for each in records)

    def change(self):
        """Add results."""
        self.since = self.edge(max(each["ts"] for each in self.stream.read), 1)
        self.served = Served(definition(self.kind, self.mode))

    def compare(self):
        """Ask for instants from the watermark on, or from a day before it; with all results."""
        if self.stream.known is None or (self.mode == "adapt" and not self.since):
            return
        reader, starts = Reader(self.url, self.served.card), WINDOWS[self.kind][1]
        newest = max(each["ts"] for each in self.stream.read)
        first = self.edge(self.stream.known - (DAY if self.mode == "retain" else 0), self.mode == "retain")
        instants = [self.edge(self.choice.randint(first, newest)) for _ in range(ASKED[self.mode])]
        for t in ("watermark", newest + self.choice.randint(1, DAY), *instants):
            key = self.choice.choice(KEYS)
            answer = reader.read(key, at=t)
            at = micros(answer.at)
            if any(micros(start) < self.since for start in answer.starts.values()) and None in answer.values():
                assert all(values or micros(answer.starts[name]) < self.since for name, values in answer.items())
                continue
            self.whole += 1
            check(answer, [each for each in self.stream.read if each["key"] == key], starts, at)


@pytest.mark.parametrize(
    ("kind", "begin", "mode", "batches"),
    [*((*case, FEW) for case in QUICK), *(pytest.param(*case, MANY, marks=pytest.mark.slow) for case in CASES)],
)
def test_reads_equal_raw_records(tmp_path, kind, begin, mode, batches):
    case = Case(tmp_path, kind, begin, mode)
    micro_batches = feed(case.choice, kind, begin, batches)
    if mode == "warm":
        half = batches // 2
        until = max(each["ts"] for records in micro_batches[:half] for each in records) + 1
        history = [each for records in micro_batches[:half] for each in records]
        case.stream.warm(case.served, history, until)
        case.since = until
        micro_batches = [[each for each in records if each["ts"] >= until] for records in micro_batches[half:]]
    for number, records in enumerate(micro_batches):
        if mode == "adapt" and number == batches // 6:
            case.change()
        case.step(records)
        case.compare()
    assert case.whole > (1000 if batches == MANY else 1)
    assert case.late > 0 or mode == "warm"
