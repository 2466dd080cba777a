"""The two-layer tree with the rows of all keys at once, against slice by slice and against brute force."""

import random
from collections import Counter

import pytest

import combinators as C
from slicing import Aggregate, group_by, hopping
from slicing.assembly.trees import two_layer
from slicing.testing import run

FAMILIES = {
    "60 by 1": hopping("60 seconds", "1 second"),
    "two slices an advance": hopping("25 seconds", "2 seconds"),
    "few slices": hopping("40 seconds", "4 seconds"),
    "with an offset": hopping("30 seconds", "3 seconds", offset="1 second"),
}


def without(whole, part):
    for each in part:
        whole = whole.replace(each, "", 1)
    return whole


DIGITS = Aggregate(
    lambda: "",
    lambda acc, v: "".join(sorted(f"{acc}{v}")),
    lambda a, b: "".join(sorted(a + b)),
    without,
    returns="string",
)
RESULTS = {
    "n": C.count(),
    "different": C.count_distinct("v", limit=1000),
    "most": C.mode("v", limit=1000),
    "digits": DIGITS.on("v"),
}


def micro_batches(rng, keys, records, seconds):
    """Records in order of time but for some seconds, a few of them late for all windows."""
    now, found = 1_000_000 * rng.randrange(-900, 900), []
    for _ in range(16):
        batch = []
        for _ in range(records):
            late = rng.choice([0, 0, 0, rng.randrange(4), rng.randrange(200)])
            time = now + rng.randrange(seconds * 1_000_000) - late * 1_000_000
            batch.append({"key": rng.randrange(keys), "ts": time, "v": rng.randrange(5)})
        found.append(batch)
        now += rng.choice([0, seconds, seconds, 3 * seconds]) * 1_000_000
    return found


def rows_of(window, batches, **how):
    defined = group_by("key").window(window, time="ts").grace("2 seconds").define(**RESULTS)
    schema = "key bigint, ts timestamp, v bigint"
    return [batch.rows for batch in run(defined, batches, "3 seconds", schema=schema, **how)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FAMILIES)
def test_all_keys_at_once_give_the_rows_of_slice_by_slice(monkeypatch, name, seed):
    rng, used, in_rounds = random.Random(f"{name} {seed}"), [], two_layer.TwoLayer._in_rounds
    monkeypatch.setattr(two_layer.TwoLayer, "_in_rounds", lambda *args: used.append(1) or in_rounds(*args))
    rounds, rows = two_layer._rounds, 0
    for keys, records in [(1, 2), (8, 3), (8, 40), (20, 12)]:
        batches = micro_batches(rng, keys, records, rng.choice([3, 7]))
        monkeypatch.setattr(two_layer, "_rounds", lambda *rows: -1)
        found, before = rows_of(FAMILIES[name], batches, restart_between=rng.random() < 0.5), len(used)
        monkeypatch.setattr(two_layer, "_rounds", lambda *rows: 1 << 40)
        assert rows_of(FAMILIES[name], batches) == found
        assert len(used) == before
        monkeypatch.setattr(two_layer, "_rounds", rounds)
        assert rows_of(FAMILIES[name], batches) == found
        for row in (row for some in found for row in some):
            held = [int(digit) for digit in row.digits]
            assert (row.n, row.different) == (len(held), len({*held}))
            assert Counter(held)[row.most] == max(Counter(held).values())
        rows += sum(map(len, found))
    assert len(used) > 5
    assert rows > 50


def test_windows_between_two_rows_of_a_key_share_its_partial(monkeypatch):
    """The first close leaves the nodes; in the second one, of 300 windows, each of nine keys has one row."""
    calls, in_rounds = [], two_layer.TwoLayer._in_rounds
    monkeypatch.setattr(
        two_layer.TwoLayer, "_in_rounds", lambda *args: calls.append(int(args[1].turn.max())) or in_rounds(*args)
    )
    times = [[(0, 5), (1, 6)], [(2, 100)], [(2, 400), *((key, 100 + 9 * key) for key in range(3, 12))], []]
    batches = [[{"key": key, "ts": 1_000_000 * time, "v": 1} for key, time in some] for some in times]
    *_, last = rows_of(hopping("600 seconds", "1 second"), batches)
    assert len(last) > 800
    assert calls == [0]
