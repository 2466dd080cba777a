"""Lookups in the state of a bucket, after every micro-batch, against the records so far.

The truth asks windows for their edges only. Records are late if no window that holds them is open by the watermark of
the micro-batches before; each lookup opens the bucket over a copy of its state that refuses every write.
"""

import random
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import islice

import pyarrow as pa
import pytest
from golden.every_kind import BEGIN, IN_TURNS, ONCE, SCENARIOS, SECOND, SEEN, WINDOWS, Line
from golden.make import load
from oracle import few, seeds
from scenarios.kind import Record
from scenarios.kinds.sessions import Sessions
from scenarios.kinds.sliding import Sliding

from slicing import by_edges, cumulating, hopping, tumbling
from slicing.engines.looking import Look, Other, over_one_cut
from slicing.errors import StateMismatch
from slicing.stages.flat import physical
from slicing.stages.looking import CLOSED, KNOWN, LookUp, LookupFlat, ReadOnly, pages_looked_up
from slicing.state.format.header import Header
from slicing.windows.sets import windows_of_call

BATCHES = 14


class Asking(Line):
    """The bucket of a scenario, in which windows are looked up."""

    def ask(self, look=None, other=None, pages=None):
        """Rows by (key, family, start, end): (results, closed, known). `other` are other windows."""
        look, window = look or Look(), other or self.window
        shape = self.execution_plan.shape
        if other is not None:
            cut = shape.family.cut
            families = tuple(part.family.over(cut) for part in other.parts)
            look, shape = (
                Look(**{**vars(look), "other": Other(families, other.wide)}),
                shape.over(over_one_cut(families)),
            )
        results = [physical(field.kind) for kernel in shape.kernels for field in kernel.results]
        results *= len(window.parts) if window.wide else 1
        flat = LookupFlat(("bigint",), tuple(results), None, True, True, False, False, False, True)
        closes = window.closes and window.by_time
        texts = {0: self.store.text}
        plan = self.execution_plan
        ask = LookUp(plan, self.fingerprint, self.emission, self.grace, shape, window.wide, closes, flat, look, texts)
        held = list((self.store.pages if pages is None else pages).items())
        random.Random(len(held)).shuffle(held)
        columns = [[0] * len(held), [name for name, _ in held], [text for _, text in held]]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(each, kind) for each, kind in zip(columns, (pa.int32(), pa.string(), pa.string()), strict=True)],
            ["bucket", "page", "text"],
        )
        rows = [
            row for found in ask([batch.slice(at, 3) for at in range(0, len(held), 3)]) for row in found.to_pylist()
        ]
        rows = [row for row in rows if row["cause"] is None]
        found = {
            (row["k0"], row["family"], row["start"], row["stop"]): (
                [value for name, value in row.items() if name[0] == "r" and name[1:].isdigit()],
                row[CLOSED],
                row[KNOWN],
            )
            for row in rows
        }
        assert len(found) == len(rows), "each window is there once"
        return found


@cache
def held_by(window, time):
    return window.windows_of(time)


class Truth:
    """The records that count so far, by the windows of a scenario."""

    def __init__(self, line, results):
        self.line, self.window, self.results, self.grace = line, line.window, results, line.grace
        self.records, self.watermark, self.clock, self.last = defaultdict(list), 0, 0, {}

    def add(self, records, watermark, clock):
        """Add those records of a micro-batch that are not late."""
        self.clock = clock
        for time, key, n, s, gap in records:
            ttl = self.window.ttl
            if ttl is not None and key in self.last and clock - self.last[key] > ttl:
                self.records[key].clear()
            self.last[key] = clock
            if not self.window.closes or not self.window.by_time or self._is_open(time):
                self.records[key].append((time, n, s, gap))
        self.watermark = max(self.watermark, watermark * 1000)

    def _is_open(self, time):
        if hasattr(self.window, "gap") or hasattr(self.window, "difference"):
            return True  # in their streams nothing is late
        return any(end + self.grace > self.watermark for _, end in held_by(self.window, time))

    def is_closed(self, end):
        return bool(self.watermark) and end + self.grace <= self.watermark

    def of_time(self, window):
        """All windows that time decides, by (key, family, start, end): their records."""
        found = defaultdict(list)
        for key, records in self.records.items():
            for record in records:
                for number, part in enumerate(window.parts):
                    for start, end in held_by(part, record[0]):
                        found[key, number, start, end].append(record)
        return found

    def sessions(self):
        return self.defined(Sessions(self.window))

    def sliding(self):
        return self.defined(Sliding(self.window))

    def defined(self, kind):
        """The windows of a kind, by its definition."""
        found = {}
        for key, records in self.records.items():
            ordered = sorted(records, key=lambda r: r[0])
            made = [Record(r[0], key, r, r[3], number, (number,)) for number, r in enumerate(ordered)]
            for place, held in kind.definition(made).items():
                found[key, 0, *place] = [record.value for record in held]
        return found

    def counting(self):
        found, size, advance = {}, self.window.size, self.window.advance
        for key, records in self.records.items():
            count = len(records)
            for end in range(count // advance * advance + advance, count + size, advance):
                first = max(0, end - size)
                if first < count and not self._is_idle(key):
                    found[key, 0, first + 1, min(count, end) + 1] = records[first:end]
        return found

    def unbounded(self):
        return {(key, 0): records for key, records in self.records.items() if records and not self._is_idle(key)}

    def _is_idle(self, key):
        return self.window.ttl is not None and self.clock - self.last[key] > self.window.ttl

    def expected(self, records):
        """The results of some records."""
        ns, texts = [r[1] for r in records if r[1] is not None], [r[2] for r in records if r[2] is not None]
        all_of = {
            "total": sum(ns) if ns else None,
            "most": max(texts, default=None),
            "squares": sum(n * n for n in ns),
            "mean": sum(ns) / len(ns) if ns else None,
            "count": len(ns),
            "joined": "".join(texts),
        }
        return [all_of[name] for name in NAMES[self.results]]


NAMES = {
    "combined": ("total", "most", "squares"),
    "shared": ("mean", "total", "count"),
    "eager": ("joined",),
    "mixed": ("total", "most", "squares", "joined"),
}


def batches(windows, seed, late=True):
    """Records (time, key, n, s, gap), the watermark in milliseconds and the clock of each micro-batch."""
    rng, step, found, greatest = random.Random(f"{windows} {seed}"), WINDOWS[windows][1], [], 0
    delay = 2 if late else 14
    for number in range(BATCHES):
        behind = rng.expovariate(0.4)
        records = [
            [
                BEGIN
                + int((2 * number + rng.random() * 3 - (rng.expovariate(0.4) if late else min(behind, 9))) * step),
                rng.choice([None, 1, 2]),
                rng.choice([None, *range(-9, 10)]),
                rng.choice([None, "a", "bb", "ccc", "z"]),
                rng.randrange(1, 6) * SECOND,
            ]
            for _ in range(rng.choice([0, 1, 2, 5, 9]))
        ]
        found.append([records, greatest, number * 3 * SECOND])
        greatest = max([greatest, *((record[0] - delay * step) // 1000 for record in records)])
    return found


def micro_batches(name, seed):
    """A scenario with its truth after each micro-batch."""
    windows, results, _ = SCENARIOS[name]
    line = Asking(name)
    truth = Truth(line, results)
    late = not name.startswith(("sessions", "sliding"))
    for each in batches(windows, seed, late):
        truth.add(*each)
        line.step(*each)
        if line.store.text is not None:
            yield line, truth


TIMED = [name for name in SCENARIOS if not name.startswith(("sessions", "sliding", "counting", "unbounded", "side by"))]
BY_RECORDS = [name for name in SCENARIOS if name.startswith(("sessions", "sliding", "counting", "unbounded"))]
OTHERS = {
    "hopping": [
        hopping("7 seconds", "1 second"),
        tumbling("3 seconds"),
        hopping("5 seconds", "2 seconds", offset="1 second"),
        cumulating("10 seconds", step="2 seconds"),
        by_edges([BEGIN, BEGIN + 9 * SECOND], [BEGIN + 20 * SECOND, BEGIN + 31 * SECOND]),
        windows_of_call([tumbling("2 seconds"), hopping("6 seconds", "3 seconds")], {}, False),
    ],
    "tumbling": [tumbling("10 seconds"), hopping("15 seconds", "5 seconds")],
    "several": [hopping("4 seconds", "4 seconds"), tumbling("8 seconds")],
    "few slices": [tumbling("3 seconds", offset="1 second")],
    "cumulating": [tumbling("2 seconds"), hopping("6 seconds", "2 seconds")],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", few(IN_TURNS, TIMED))
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_windows_of_time_are_those_of_the_records_so_far(name, seed):
    rows = 0
    for line, truth in micro_batches(name, seed):
        all_windows, found = truth.of_time(line.window), line.ask()
        for place, (results, closed, known) in found.items():
            assert results == truth.expected(all_windows[place]), place
            assert closed == truth.is_closed(place[3])
            assert known is None
        missing = {place for place in all_windows if not truth.is_closed(place[3])} - found.keys()
        assert not missing
        rows += len(found)
    assert rows > 10


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [f"{windows}, combined, {each}" for windows in OTHERS for each in
                                  ("on close", "corrections", "on update")
                                  if f"{windows}, combined, {each}" in SCENARIOS])  # fmt: skip
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_windows_that_the_query_does_not_have(name, seed):
    rows = 0
    for line, truth in micro_batches(name, seed):
        open_ones = [start for _, _, start, end in truth.of_time(line.window) if not truth.is_closed(end)]
        for other in OTHERS[SCENARIOS[name][0]]:
            all_windows, found = truth.of_time(other), line.ask(other=other)
            for place, (results, closed, _) in found.items():
                assert results == truth.expected(all_windows[place]), (other, place)
                assert closed == truth.is_closed(place[3])
            whole = {place for place in all_windows if open_ones and place[2] >= min(open_ones)}
            assert whole <= found.keys()
            rows += len(found)
    assert rows > 50


@pytest.mark.parametrize("name", [name for name in SCENARIOS if "idle" in name])
def test_keys_are_forgotten_by_the_ttl_of_the_checkpoint(name):
    """A definition with another `ttl` finds the windows of all keys that the query has not forgotten, and no more."""
    rows = 0
    for line, _ in micro_batches(name, 1):
        found, plan = line.ask(), line.execution_plan
        for ttl in (None, SECOND, 1000 * SECOND):
            line.execution_plan = replace(plan, ttl=ttl)
            assert line.ask() == found
        line.execution_plan = plan
        rows += len(found)
    assert rows > 10


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BY_RECORDS)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_windows_that_records_decide(name, seed):
    kind = name.split(",")[0].split()[0]
    rows = 0
    for line, truth in micro_batches(name, seed):
        wanted, found = getattr(truth, kind)(), line.ask()
        if kind == "unbounded":
            found = {place[:2]: row for place, row in found.items()}
        if kind in ("sessions", "sliding"):
            wanted = {place: held for place, held in wanted.items() if not truth.is_closed(place[3])}
        assert found.keys() == wanted.keys()
        for place, (results, closed, known) in found.items():
            assert results[: len(NAMES[truth.results])] == truth.expected(wanted[place]), place
            assert not closed
            assert known is None
        rows += len(found)
    assert rows > 10


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith("side by")])
def test_windows_side_by_side(name):
    for line, truth in micro_batches(name, 1):
        short, long = line.window.parts
        of_short, of_long = truth.of_time(short), truth.of_time(long)
        found = line.ask()
        for (key, _, end, stop), (results, closed, _) in found.items():
            half, size = len(results) // 2, long.family.size
            assert end == stop
            assert results[half:] == truth.expected(of_long[key, 0, end - size, end])
            held = of_short.get((key, 0, end - short.family.size, end))
            assert results[:half] == (truth.expected(held) if held else [None] * half)
            assert closed == truth.is_closed(end)
        open_ones = {(key, end) for key, _, _, end in of_long if not truth.is_closed(end)}
        assert open_ones <= {(key, end) for key, _, end, _ in found}


KEYS = pa.table([pa.array([2, 9], pa.int64())], names=["k0"])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ONCE)
def test_keys_and_starts_choose_rows(name):
    window, chosen = WINDOWS[SCENARIOS[name][0]][0], 0
    for line, _ in islice(micro_batches(name, 3), 2, None, 3):
        every = line.ask()
        of_keys = line.ask(Look(keys=KEYS))
        assert of_keys == {place: row for place, row in every.items() if place[0] == 2}
        if window.by_time and window.closes and not window.wide:
            low, high = (sorted(place[2] for place in every)[at] for at in (0, len(every) // 2)) if every else (0, 0)
            some = line.ask(Look(starts=(low + 1, high)))
            assert some == {place: row for place, row in every.items() if low + 1 <= place[2] <= high}
            chosen += len(some)
        chosen += len(of_keys)
    assert chosen


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [name for name in ONCE if "eager" not in name])
def test_the_latest_window_is_the_first_that_holds_the_newest_record(name):
    for line, truth in islice(micro_batches(name, 4), 1, None, 2):
        every, found = line.ask(), line.ask(Look(latest=True))
        assert found.items() <= every.items()
        by_key = defaultdict(list)
        for place in every:
            by_key[place[:2]].append(place)
        assert {place[:2] for place in found} == by_key.keys()
        if truth.window.by_time and truth.window.closes and not truth.window.wide:
            newest = {key: max(record[0] for record in held) for key, held in truth.records.items() if held}
            for places in by_key.values():
                holding = [place for place in places if place[2] <= newest[place[0]] < place[3]]
                (one,) = found.keys() & set(places)
                assert one == (min(holding, key=lambda place: place[2:]) if holding else one)


@pytest.mark.parametrize("name", ["hopping, combined, on close", "tumbling, combined, on update"])
def test_windows_that_are_not_whole_are_there_if_asked_for_and_say_so(name):
    partial = 0
    for line, truth in micro_batches(name, 5):
        other = hopping("40 seconds", "5 seconds")
        every, whole = line.ask(Look(incomplete=True), other), line.ask(other=other)
        assert whole.items() <= every.items()
        for place in every.keys() - whole.keys():
            results, _, known = every[place]
            assert place[2] < known < place[3]
            assert results == truth.expected([r for r in truth.of_time(other)[place] if r[0] >= known])
            partial += 1
        assert all(known is None for _, _, known in whole.values())
    assert partial


NAMED = [(name, [None]) for name in ONCE if name in TIMED and "eager" not in name]
NAMED += [
    (name, [*OTHERS[windows], hopping("40 seconds", "4 seconds")])
    for name, (windows, results, _) in SCENARIOS.items()
    if windows in ("hopping", "several") and results == "combined" and name in ONCE
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "others"), NAMED, ids=lambda each: each if isinstance(each, str) else len(each))
def test_a_window_that_is_named_has_its_result_or_is_not_known(name, others):
    """Each window of the records of a key is there; of a key without records, the windows that are not known."""
    nulls = whole = 0
    for line, truth in islice(micro_batches(name, 9), 3, None, 3):
        for other in others:
            first = min((place[2] for place in truth.of_time(other or line.window)), default=BEGIN)
            starts = first, (truth.watermark or BEGIN) + 5 * SECOND
            found = line.ask(Look(keys=KEYS, starts=starts, unknown=True), other)
            known = line.ask(Look(keys=KEYS, starts=starts), other)
            unknown = {place: row for place, row in found.items() if row[2] is not None}
            assert {place: row for place, row in found.items() if place not in unknown} == known
            for (_, _, start, end), (results, closed, since) in unknown.items():
                assert {*results} == {None}
                assert start < since
                assert closed == truth.is_closed(end)
            there = {p for p in truth.of_time(other or line.window) if p[0] == 2 and starts[0] <= p[2] <= starts[1]}
            assert there <= found.keys()
            assert {place[1:] for place in unknown if place[0] == 2} == {p[1:] for p in unknown if p[0] == 9}
            near = line.ask(Look(starts=starts, unknown=True), other)
            assert {p: row for p, row in near.items() if p[0] == 2}.items() <= found.items()
            assert line.ask(Look(starts=starts), other).items() <= near.items()
            nulls, whole = nulls + len(unknown), whole + len(known)
    assert nulls
    assert whole


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ONCE)
def test_a_lookup_changes_nothing(name):
    """The store refuses writes; what the process keeps is as it was, so that the stream continues as without."""
    plain, asked = Line(name), Asking(name)
    for each in batches(SCENARIOS[name][0], 6):
        assert plain.step(*each) == asked.step(*each)
        if asked.store.text is not None:
            before = asked.store.text, dict(asked.store.pages)
            asked.ask()
            assert before == (asked.store.text, asked.store.pages)
    with pytest.raises(AssertionError, match="writes nothing"):
        ReadOnly("b", None, {}).put("p", "text")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", few(IN_TURNS, SCENARIOS))
def test_state_of_format_7_can_be_asked(name):
    """What it answers is what the same records give in state that is written now."""
    golden = every7()
    stored, batches = golden["scenarios"][name], golden["streams"][SCENARIOS[name][0]]
    written = Asking(name)
    for each in batches[:SEEN]:
        written.step(*each)
    assert Asking(name, stored["header"], stored["pages"]).ask() == written.ask()


@cache
def every7():
    return load("every7")


def test_a_page_that_is_not_there_is_named():
    line = Asking("hopping, combined, on close")
    for each in batches("hopping", 7):
        line.step(*each)
    needed = sorted(pages_looked_up(Header.from_text(line.store.text)))
    left = {name: text for name, text in line.store.pages.items() if name != needed[0]}
    with pytest.raises(StateMismatch, match=f"page `{needed[0]}` of bucket 0 is in the header and not in the store"):
        line.ask(pages=left)


def test_caches_of_trees_are_not_read():
    line = Asking("hopping, combined, on close")
    for each in batches("hopping", 8):
        line.step(*each)
    needed = pages_looked_up(Header.from_text(line.store.text))
    assert needed < line.store.pages.keys()
    assert line.ask(pages={name: line.store.pages[name] for name in needed}) == line.ask()
