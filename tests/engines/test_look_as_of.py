"""Windows as of an instant, looked up in the state of a bucket after every micro-batch, against the records so far.

The truth asks windows for their edges only: the window as of t is the last one that has ended by then, continued to t;
cumulating windows begin with the period that holds the microsecond before t.
"""

import random
from functools import cache

import pyarrow as pa
import pytest
from golden.every_kind import EAGER, MIXED, SCENARIOS, SECOND, WINDOWS
from oracle import few, seeds
from test_look import TIMED, micro_batches

from slicing import hopping
from slicing.engines.looking import Look
from slicing.engines.sliced import merging
from slicing.stages.flat import physical
from slicing.stages.looking import KNOWN
from slicing.stages.looking_as_of import AT, FlatAsOf, LookUpAsOf
from slicing.windows.as_of import WindowsAsOf, held_now

LONG = "hopping with a tail"
EVERY = [
    name
    for name, (windows, results, emission) in SCENARIOS.items()
    if (name in TIMED or name.startswith("side by")) and windows not in ("gaps", "by edges")
    if results not in (EAGER, MIXED) and emission in ("on close", "on update", "corrections")
]
KEYS = [None, 1, 2, 9]


@pytest.fixture(params=few(EVERY, [LONG]))
def name(request, monkeypatch):
    """A scenario of windows that share slices."""
    monkeypatch.setitem(WINDOWS, LONG, (hopping("12 seconds", "1 second", tail="4 seconds"), SECOND))
    monkeypatch.setitem(SCENARIOS, LONG, (LONG, "combined", "on close"))
    monkeypatch.setattr(merging, "AT_ONCE", 2)
    return request.param


def asked(line, at, look):
    """Rows by key: the instant, from when on records are known, and for each window its start and its results."""
    families, plan = held_now(line.window), line.execution_plan
    names = tuple(f"w{number}" for number in range(len(families)))
    window = WindowsAsOf((), names, of=tuple(families))
    shape = plan.shape.over(window.family)
    kinds = [physical(field.kind) for kernel in shape.kernels for field in kernel.results]
    flat = FlatAsOf(("bigint",), (*kinds * len(names),), None, False, False, False, False, False, False, len(names))
    texts = {0: line.store.text}
    ask = LookUpAsOf(plan, line.fingerprint, line.emission, line.grace, shape, True, True, flat, look, texts, (), at)
    pages = pa.table(
        {"bucket": [0] * len(line.store.pages), "page": [*line.store.pages], "text": [*line.store.pages.values()]}
    )
    batches = [*ask(pages.to_batches()), *ask.without_pages()]
    found, count = {}, len(kinds)
    for row in pa.Table.from_batches(batches).to_pylist():
        if row["cause"] is None:
            results = [value for name, value in row.items() if name[0] == "r" and name[1:].isdigit()]
            windows = [
                (row[f"b{number}"], results[number * count : (number + 1) * count] if row[f"h{number}"] else None)
                for number in range(len(names))
            ]
            assert row["k0"] not in found
            found[row["k0"]] = row[AT], row[KNOWN], windows
    return found


@cache
def started(part, at, step):
    """The start of the window as of an instant."""
    if "cumulating" in repr(part):
        return part.windows_of(at - 1)[0][0]
    near = {window for back in range(60) for window in part.windows_of(at - back * step)}
    return max((end, start) for start, end in near if end <= at)[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_windows_as_of_instants_are_those_of_the_records_so_far(name, seed):
    (windows, _, _), choice = SCENARIOS[name], random.Random(seed)
    step, whole, left_out = WINDOWS[windows][1], 0, 0
    for line, truth in micro_batches(name, seed):
        slices = line.execution_plan.shape.family
        times = [record[0] for records in truth.records.values() for record in records] or [step * 10**6]
        some = [choice.choice(times) + choice.randint(-9, 30) * step for _ in range(3)]
        opened = [end for *_, end in truth.of_time(line.window) if not truth.is_closed(end)]
        ends = [choice.choice(opened)] if opened and not line.window.wide else []
        for at in [*some, *(int(slices.slice_start(slices.slice_at(each))) for each in some), *ends]:
            until = int(slices.slice_start(slices.slice_at(at - 1) + 1))
            look = Look(unknown=True, keys=choice.choice([None, pa.table([pa.array(KEYS, pa.int64())], ["k0"])]))
            found = asked(line, at, look)
            assert look.keys is None or found.keys() == set(KEYS)
            for key, (instant, known, results) in found.items():
                assert instant == at
                assert (known is None) == all(values is not None for _, values in results)
                for part, (start, values) in zip(line.window.parts, results, strict=True):
                    assert start == started(part, at, step)
                    held = [each for each in truth.records.get(key, ()) if start <= each[0] < until]
                    assert values is None or values == truth.expected(held), (at, key)
                    whole, left_out = whole + (values is not None), left_out + (values is None)
                assert at not in ends or any(values is not None for _, values in results)
    assert whole > 50
    assert left_out > 10


def test_at_the_watermark():
    """Without one there are no results; then the instant is the last edge of slices."""
    seen = set()
    for line, _ in micro_batches("hopping, combined, on close", 1):
        watermark = line.bucket().head.watermark
        for instant, known, windows in asked(line, None, Look(unknown=True)).values():
            assert instant == (watermark // SECOND * SECOND or None)
            assert watermark or (known, windows[0][1]) == (None, None)
            seen.add(bool(watermark))
    assert seen == {True, False}
