"""What functions remember of keys and windows, against brute force over the rows; every micro-batch opens it anew."""

from collections import defaultdict
from copy import deepcopy
from dataclasses import replace
from random import Random

import pytest
from processing import END, MINUTE, Play, cut, random_records

from slicing import (
    counting,
    cumulating,
    early,
    hopping,
    keep_last,
    on_close,
    on_update,
    session,
    sliding,
    tumbling,
    unbounded,
)
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, StateMismatch
from slicing.process.states import declared
from slicing.stages.stored_states import StoredStates
from slicing.state.store import MemoryStore
from slicing.windows.sets import windows_of_call

START = 20_000 * 24 * 60 * MINUTE
WINDOWS = {
    "tumbling": (tumbling("5 minutes"), None),
    "hopping": (hopping("6 minutes", advance="2 minutes"), None),
    "cumulating": (cumulating("6 minutes", step="2 minutes"), "20 minutes"),
    "several": (
        windows_of_call((tumbling("4 minutes"), hopping("6 minutes", advance="2 minutes")), {}, False),
        "5 minutes",
    ),
    "session": (session("30 seconds"), "4 minutes"),
    "sliding": (sliding("20 seconds"), "1 minute"),
    "zone": (tumbling("1 hour", zone="Asia/Kolkata"), "1 hour"),
}


def records_of(seed, count=120, span=60 * MINUTE):
    found = random_records(seed, count, span, keys=3)
    return list({(time, key): (time + START, key, value) for time, key, value in found}.values())


def numbered(key, window, records, context):
    """How many windows of the key have fired, and how many records the one before had."""
    state = context.key_state
    before, state.n, state.records = state.records, (state.n or 0) + 1, len(records)
    return [(state.n, before)]


KEY = "n long, records long"


def brute(rows, ttl, spans):
    """The rows that windows, which are told by their bounds and records, must have."""
    by_key, found = defaultdict(list), []
    for key, start, stop, number in spans:
        by_key[number, key].append((stop, start))
    held = {(number, *key): count for number, *key, count in rows}
    for (number, key), windows in by_key.items():
        n, before, last = 0, None, None
        for stop, start in sorted(windows):
            if last is not None and stop - last > ttl:
                n, before = 0, None
            n += 1
            found.append((key, start, stop, n, before))
            before, last = held[number, key, start, stop], stop
    return sorted(found, key=str)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_the_state_of_a_key_goes_from_window_to_window(name, streaming):
    """In the order of their ends, whatever the micro-batches; a pause longer than `key_ttl` starts anew."""
    window, ttl = WINDOWS[name]
    states = declared(KEY, None, None, ttl, window)
    records = records_of(5)
    play = Play(window, numbered, "n long, before long", states=states, streaming=streaming)
    rows = play.stream(cut(records, 1), 400 * MINUTE) if streaming else play.bounded(records)
    counted = Play(window, lambda key, window, records, context: [(len(records),)], "n long", streaming=False)
    sizes = []
    for windows in counted.execution_plan.all_windows(counted.ship(records)):
        for key, start, stop, n, _ in counted.rows(windows):
            sizes.append((windows.family, key, start, stop, n))
    spans = [(key, start, stop, number) for number, key, start, stop, _ in sizes]
    wanted = brute(sizes, states.key_ttl, spans)
    assert sorted((row[:5] for row in rows), key=str) == wanted
    assert max(row[3] for row in wanted) > 1
    assert name in ("several", "sliding") or len([row for row in wanted if row[3] == 1]) >= 3


def test_micro_batches_do_not_matter_and_late_records_are_late():
    """The same rows where windows close as the watermark advances, of any cut in which nothing is late."""
    records = sorted(records_of(6))
    states = declared(KEY, None, None, "7 minutes", tumbling("5 minutes"))
    plays = [Play(tumbling("5 minutes"), numbered, "n long, before long", states=states) for _ in range(3)]
    batches = [cut(records, seed, most) for seed, most in enumerate((3, 20, 200))]
    rows = [sorted(play.stream(some, 0), key=str) for play, some in zip(plays, batches, strict=True)]
    assert rows[0] == rows[1] == rows[2]
    assert any(row[3] > 1 for row in rows[0])
    assert sum(row[3] == 1 for row in rows[0]) > 3


def seen(key, window, records, context):
    state = context.window_state
    state.firings = (state.firings or 0) + 1
    new, state.records = len(records) - (state.records or 0), len(records)
    return [(state.firings, new)]


FIRED = "firings long, new long"
FIRED_STATE = "firings long, records long"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["tumbling", "hopping", "cumulating", "several", "sliding"])
def test_the_state_of_a_window_goes_from_firing_to_firing(name):
    """Each firing knows how many there were; what it counts as new adds up to the records of the last one."""
    window, _ = WINDOWS[name]
    cleared = []
    states = declared(
        None, "firings long, records long", lambda *call: cleared.append((call[0], call[1].start_us, call[1].end_us,
        call[2].window_state.firings)), None, window
    )  # fmt: skip
    play = Play(window, seen, FIRED, trigger=early(records=2), states=states)
    rows = play.stream(cut(records_of(8), 2), MINUTE)
    counts = defaultdict(list)
    for key, start, stop, firings, new, kind in rows:
        counts[key, start, stop].append((firings, new, kind))
    for firings in counts.values():
        assert [each[0] for each in firings] == list(range(1, len(firings) + 1)) or name == "several"
        assert firings[-1][2] == "final"
    assert any(len(firings) > 2 for firings in counts.values())
    if name != "several":
        assert sorted(cleared) == sorted(((key,), *bounds, len(counts[key, *bounds])) for key, *bounds in counts)
    assert not [listed for listed in header(play).lists if "states" in listed], "all have closed"


def header(play):
    return play.execution_plan.bucket(play.grace, play.fingerprint, play.store, play.trigger).head


def test_what_is_cleared_is_told_once_and_before():
    """`clear` sees the state, and may put it into that of the key; it is called when the window closes for good."""
    told = []

    def clear(key, window, context):
        told.append((key, window.start_us, context.window_state.n))
        context.key_state.total = (context.key_state.total or 0) + context.window_state.n

    def count(key, window, records, context):
        context.window_state.n = len(records)
        return [(context.key_state.total,)]

    window = tumbling("1 minute")
    states = declared("total long", "n long", clear, "10 minutes", window)
    play = Play(window, count, "total long", trigger=on_close(corrections=True), grace=MINUTE, states=states)
    play.step([(1, "a", 0), (2, "a", 0)], 0)
    assert [row[3] for row in play.step([(MINUTE + 1, "a", 0)], MINUTE)] == [None]
    assert not told
    assert [row[3:] for row in play.step([(3, "a", 0)], MINUTE)] == [(None, "correction")]
    assert not told, "it takes late records"
    assert [row[3] for row in play.step([], 2 * MINUTE)] == [None], "fired before it is cleared"
    assert told == [(("a",), 0, 3)]
    assert [row[3] for row in play.step([(2 * MINUTE, "a", 0)], 4 * MINUTE)] == [3]
    assert told[1:] == [(("a",), MINUTE, 1), (("a",), 2 * MINUTE, 1)]


def test_a_bucket_without_windows_remembers_keys():
    """All windows have closed in between, and nothing else is left."""
    window = tumbling("1 minute")
    play = Play(window, numbered, "n long, before long", states=declared(KEY, None, None, "7 days", window))
    play.step([(1, key, 0) for key in "acdefgh"], 0)
    assert [row[3] for row in play.step([], 9 * MINUTE)] == [1] * 7
    play.step([(20 * MINUTE, "b", 0)], 9 * MINUTE)
    assert [row[3] for row in play.step([], 29 * MINUTE)] == [1]
    play.step([(30 * MINUTE, "a", 0)], 29 * MINUTE)
    assert [row[3:5] for row in play.step([], 39 * MINUTE)] == [(2, 1)]


def test_windows_without_a_last_firing_are_cleared():
    """Also when they are the last ones of a bucket."""
    window, cleared = tumbling("1 minute"), []
    states = declared(None, "firings long, records long", lambda key, *_: cleared.append(key), None, window)
    play = Play(window, seen, FIRED, trigger=early(records=1, final=False), states=states)
    assert len(play.step([(1, "a", 0)], 0)) == 1
    assert not play.step([], 9 * MINUTE)
    assert cleared == [("a",)]


@pytest.fixture
def reads(monkeypatch):
    """An item for each time that stored states are read."""
    found, read = [], StoredStates._read
    monkeypatch.setattr(StoredStates, "_read", lambda *given: (found.append(given), read(*given)))
    return found


@pytest.mark.parametrize("window", [tumbling("1 minute"), unbounded()], ids=str)
def test_states_are_not_read_where_nothing_fires(window, reads):
    states = declared(None, FIRED_STATE, None, None, window)
    play = Play(window, seen, FIRED, trigger=early(records=2, per="window", final=False), states=states)
    counts = []
    for key in "aabbabc":
        rows = play.step([(1, key, 0)], 0)
        counts.append((len(rows), len(reads)))
    assert counts == [(0, 0), (1, 1), (0, 1), (1, 2), (0, 2), (0, 2), (0, 2)]


def test_states_are_read_where_a_window_that_has_one_closes(reads):
    """Nothing fires at the close, and grace is a minute."""
    window, cleared = tumbling("1 minute"), []
    states = declared(None, FIRED_STATE, lambda key, window, _: cleared.append((*key, window.start_us)), None, window)
    trigger = early(records=2, per="window", final=False)
    play = Play(window, seen, FIRED, trigger=trigger, grace=MINUTE, states=states)
    for records in ([(1, "a", 0)] * 2, [(MINUTE, "b", 0)], [(5 * MINUTE, "c", 0)] * 2):
        play.step(records, 0)
    assert len(reads) == 2
    counts = []
    for minute in (0.5, 1, 2, 3, 4, 5, 6, 7, 8):
        play.step([], int(minute * MINUTE))
        counts.append(len(reads))
    assert counts == [2, 2, 3, 3, 3, 3, 3, 4, 4]
    assert cleared == [("a", 0), ("c", 5 * MINUTE)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["tumbling", "hopping", "cumulating", "several", "sliding", "zone"])
def test_states_that_are_not_read_would_change_nothing(name, monkeypatch):
    """Rows and calls of `clear` are those of a query that reads all states in every micro-batch."""

    def played():
        told, greatest, found = [], START, []

        def clear(key, window, context):
            told.append((key, window.start_us, window.end_us, context.window_state.firings))

        states = declared(None, FIRED_STATE, clear, None, WINDOWS[name][0])
        trigger = early(records=2, per="window", final=False)
        play = Play(WINDOWS[name][0], seen, FIRED, trigger=trigger, grace=MINUTE, states=states)
        for batch in cut(sorted(records_of(11, 400)), 2):
            found.append((play.step(batch, greatest), list(told)))
            greatest = max([greatest, *(time - 2 * MINUTE for time, *_ in batch)])
        found.append((play.step([], END), told))
        assert len(told) > 5
        return found, sorted(header(play).lists)

    found = played()
    monkeypatch.setattr(StoredStates, "_must_read", True)
    assert played() == found


def test_the_state_of_a_key_that_is_nan_is_kept():
    """NaN is one key, as in Spark."""
    window = tumbling("1 minute")
    states = declared(KEY, None, None, "7 days", window)
    play = Play(window, numbered, "n long, before long", states=states, key="double")
    found = []
    for number in range(3):
        play.step([(number * MINUTE, float("nan"), 0), (number * MINUTE, -0.0 if number else 0.0, 0)], number * MINUTE)
        found.append([row[3] for row in play.step([], (number + 1) * MINUTE)])
    assert found == [[1, 1], [2, 2], [3, 3]]


def test_states_of_unbounded_and_count_windows():
    """Of the one window of a key, and of counted ones; forgotten by the clock, as the records are."""
    window = unbounded(ttl="1 minute")
    states = declared("n long", "n long", None, None, window)

    def count(key, window, records, context):
        context.key_state.n = context.window_state.n = (context.key_state.n or 0) + 1
        return [(context.key_state.n, context.window_state.n)]

    play = Play(window, count, "n long, m long", trigger=on_update(), states=states)
    given = [play.step([(1, "a", 0)], 0, clock) for clock in (MINUTE, MINUTE + 1_000_000, 2 * MINUTE, 4 * MINUTE)]
    assert [row[3:5] for rows in given for row in rows] == [(1, 1), (2, 2), (3, 3), (1, 1)]
    window = counting(2)
    play = Play(window, count, "n long, m long", states=declared("n long", "n long", None, None, window))
    rows = [row for _ in range(3) for row in play.step([(number, "a", 0) for number in range(3)], 0)]
    assert [row[3] for row in rows] == [1, 2, 3, 4]


TTL = "20 seconds"
GAPS = [0, 1, 4_000, 9_000, 10_000, 10_001, 19_999, 20_000, 20_001]  # milliseconds
PURGING = early(records=2, per="window", final=False, purge=True)
BY_CLOCK = {
    "each": (unbounded(ttl=TTL), on_update()),
    "some": (unbounded(ttl=TTL), early(records=3, per="window", final=False)),
    "purged": (unbounded(ttl=TTL), PURGING),
    "counted": (counting(3, ttl=TTL), on_close()),
}


class Lives:
    """The plain definition: a key lives until the clock is more than `ttl` past its last record."""

    def __init__(self, purges):
        self.purges, self.last, self.told, self.ttl = purges, {}, [], 20_000
        self.of_key, self.of_window = defaultdict(int), defaultdict(int)

    def forget(self, now):
        for key in [key for key, last in self.last.items() if self.ttl and now - last > self.ttl]:
            self._clear(key)
            self.of_key[key] = 0
            del self.last[key]

    def fired(self, key):
        """The numbers of earlier firings of the key, and of its window."""
        before = self.of_key[key], self.of_window[key]
        self.of_key[key] += 1
        self.of_window[key] += 1
        if self.purges:
            self._clear(key)
        return before

    def _clear(self, key):
        if self.of_window[key]:
            self.told.append((key, self.of_key[key], self.of_window[key]))
        self.of_window[key] = 0


def lived(told, with_window):
    """A function that counts its calls, and its `clear`; the fields have the names of stored ones."""

    def count(key, window, records, context):
        states = [context.key_state, context.window_state if with_window else context.key_state]
        before = states[0].at or 0, (states[1].start or 0) if with_window else 0
        states[0].at = before[0] + 1
        if with_window:
            states[1].start = before[1] + 1
        return [before]

    def clear(key, window, context):
        told.append((*key, context.key_state.at, context.window_state.start))

    return count, clear


def lasting(window, trigger, told):
    """A function that remembers of its key, and of its window where records are not counted; `told` is of `clear`."""
    count, clear = lived(told, not window.counts)
    own = (None, None) if window.counts else ("start long", clear)
    states = declared("at long", *own, None, window)
    return Play(window, count, "key long, window long", trigger=trigger, states=states)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", BY_CLOCK)
@pytest.mark.parametrize("seed", range(2))
def test_states_live_until_their_key_is_idle(name, seed):
    """By the last record, whatever fires in between; `clear` is called in the micro-batch that forgets the key."""
    (window, trigger), random = BY_CLOCK[name], Random(seed)
    told, with_window = [], not window.counts
    play = lasting(window, trigger, told)
    lives, now = Lives(trigger is PURGING), 1_700_000_000_000
    for number in range(80):
        now += random.choice(GAPS)
        keys = [random.choice("abc") for _ in range(random.choice([0, 1, 1, 2, 4]))]
        lives.forget(now)
        lives.last |= dict.fromkeys(keys, now)
        for row in play.step([(number, key, 0) for key in keys], 0, now * 1000):
            before = lives.fired(row[0])
            assert row[3:5] == (before[0], before[1] if with_window else 0), (number, row)
        assert sorted(told) == sorted(lives.told if with_window else []), number
        play = play.restarted() if random.random() < 0.1 else play
    assert len(told) > 3 or not with_window


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BY_CLOCK)
@pytest.mark.parametrize("seed", range(3))
def test_states_are_forgotten_with_their_keys_by_another_ttl(name, seed):
    """A key that another `ttl` forgets is told to `clear`, once; one that was forgotten stays so."""
    (window, trigger), random = BY_CLOCK[name], Random(seed)
    told, with_window = [], not window.counts
    ttls = (None, 3_000, 20_000, 60_000)
    plays = {ttl: lasting(replace(window, ttl=ttl and ttl * 1000), trigger, told) for ttl in ttls}
    lives, now, store = Lives(trigger is PURGING), 1_700_000_000_000, MemoryStore()
    for number in range(160):
        now += random.choice(GAPS)
        lives.ttl = random.choice(list(plays)) if random.random() < 0.2 else lives.ttl
        plays[lives.ttl].store = store
        keys = [random.choice("abc") for _ in range(random.choice([0, 1, 1, 2, 4]))]
        lives.forget(now)
        lives.last |= dict.fromkeys(keys, now)
        for row in plays[lives.ttl].step([(number, key, 0) for key in keys], 0, now * 1000):
            before = lives.fired(row[0])
            assert row[3:5] == (before[0], before[1] if with_window else 0), (number, row)
        assert sorted(told) == sorted(lives.told if with_window else []), number
    assert len(told) > 3 or not with_window


@pytest.mark.parametrize("name", ["some", "counted"])
def test_states_go_by_the_last_record_and_not_by_the_last_firing(name):
    """A record every 15 seconds keeps a key, and the third one fires."""
    window, trigger = BY_CLOCK[name]
    states = declared("at long", *([None, None] if window.counts else ["start long", None]), None, window)
    count, _ = lived([], not window.counts)
    play = Play(window, count, "key long, window long", trigger=trigger, states=states)
    clocks = [number * 15_000_000 for number in range(9)]
    rows = [row[3] for clock in clocks for row in play.step([(clock, "a", 0)], 0, clock)]
    assert rows == [0, 1, 2]
    assert [row[3] for row in play.step([(0, "a", 0)] * 3, 0, clocks[-1] + 20_001_000)] == [0]


def test_states_of_older_checkpoints_expire_once_by_their_last_firing():
    """A key may have been forgotten and come again in between, and only later versions store that."""
    window = unbounded(ttl=TTL)
    count, clear = lived([], True)
    states = declared("at long", "start long", clear, None, window)
    trigger = early(records=2, per="window", final=False)
    play = Play(window, count, "key long, window long", trigger=trigger, states=states)

    def step(seconds, keys):
        return [row[3:5] for row in play.step([(1, key, 0) for key in keys], 0, (1_700_000_000 + seconds) * 1_000_000)]

    assert step(0, "aabbcc") == [(0, 0)] * 3
    assert step(15, "abc") == []
    bucket = play.execution_plan.bucket(0, play.fingerprint, play.store, trigger)
    bucket.head.forgets = False
    bucket.pages.save_header()
    assert step(19, "b") == [(1, 1)]
    bucket = play.execution_plan.bucket(0, play.fingerprint, play.store, trigger)
    bucket.head.forgets = False
    bucket.pages.save_header()
    assert step(22, "a") == [(0, 0)], "its last firing was 22 seconds ago, its last record 7"
    assert step(34, "c") == [(0, 0)]
    assert step(36, "b") == []
    assert step(55, "b") == [(2, 2)], "its last firing was 36 seconds ago, its last record 19"


GRACED = {
    "close": on_close(),
    "late": on_close(corrections=True),
    "early": early(records=1, per="window"),
    "early alone": early(records=1, per="window", final=False),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", GRACED)
@pytest.mark.parametrize("seed", range(4))
def test_states_live_as_long_as_their_windows_by_another_grace(name, seed):
    """A window is told to `clear` once, when it closes; its key's state expires after it, by the `key_ttl` of then."""
    window, random, told = hopping("4 minutes", advance="2 minutes"), Random(seed), []
    count, _ = lived([], True)

    def clear(key, window, context):
        told.append((*key, window.start_us, context.window_state.start))

    plays, store = {}, MemoryStore()
    for ttl in (6, 20, 60):
        states = declared("at long", "start long", clear, f"{ttl} minutes", window)
        plays[ttl] = Play(window, count, "key long, window long", trigger=GRACED[name], states=states)
        plays[ttl].store = store
    fired, wanted, last, of_key = defaultdict(int), [], {}, defaultdict(int)
    ttl, grace, watermark = 6, MINUTE, START
    for _ in range(150):
        if random.random() < 0.25:
            ttl, grace = random.choice(list(plays)), random.choice([1, 5, 15]) * MINUTE
        records = [
            (watermark + random.randrange(-8, 9) * MINUTE + 1, random.choice("abcdef"), 0)
            for _ in range(random.choice([0, 0, 1, 3]))
        ]
        watermark += random.choice([0, 1, 2, 5]) * MINUTE
        plays[ttl].grace = grace
        for key, _, stop, *found, _ in sorted(plays[ttl].step(records, watermark), key=lambda row: row[2]):
            is_known = key in last and stop - last[key] <= ttl * MINUTE
            of_key[key] = of_key[key] if is_known else 0
            assert found == [of_key[key], fired[key, stop]]
            of_key[key] += 1
            fired[key, stop] += 1
            last[key] = max(last[key], stop) if is_known else stop
        for key, stop in [(key, stop) for key, stop in fired if stop + grace <= watermark]:
            wanted.append((key, stop - 4 * MINUTE, fired.pop((key, stop))))
        last = {key: at for key, at in last.items() if at + ttl * MINUTE + grace >= watermark}
        assert sorted(told) == sorted(wanted)
    assert len(told) > 30


def test_a_clear_of_a_forgotten_key_that_raises_is_told_by_that_key():
    """Also if it is called before the function of another key."""
    window = unbounded(ttl=TTL)
    count, _ = lived([], True)
    states = declared("at long", "start long", lambda *call: 1 / 0, None, window)
    play = Play(window, count, "key long, window long", trigger=on_update(), states=states)
    play.step([(1, "a", 0)], 0, 1_000_000)
    with pytest.raises(FunctionFailed, match=r"`clear` raised.*ZeroDivision.* for key \('a',\)\. Correct") as caught:
        play.step([(1, "b", 0)], 0, 100_000_000)
    assert "('b',)" not in str(caught.value)


def test_the_state_of_a_purged_window_is_gone():
    """Its row was stored by a trigger that does not purge, beside those of keys that stay."""
    window = unbounded()
    play = Play(window, seen, FIRED, trigger=on_update(), states=declared(None, FIRED_STATE, None, None, window))
    assert [row[3] for row in play.step([(1, key, 0) for key in "abc"], 0)] == [1, 1, 1]
    play.trigger = early(records=2, purge=True)
    assert [row[3:5] for row in play.step([(2, "a", 0), (3, "a", 0)], 0)] == [(2, 2)]
    assert [row[3:5] for row in play.step([(4, "a", 0), (5, "a", 0)], 0)] == [(1, 2)]
    assert [row[3] for row in play.step([(6, "b", 0), (7, "b", 0)], 0)] == [2]


def test_the_state_of_a_key_that_is_set_to_nothing_is_gone():
    """Its row was stored beside those of keys that stay."""
    window = tumbling("1 minute")

    def until_two(key, window, records, context):
        state = context.key_state
        before, state.n = state.n, None if state.n == 2 else (state.n or 0) + 1
        return [(before,)]

    play = Play(window, until_two, "n long", states=declared("n long", None, None, "1 day", window))
    found = []
    for number in range(6):
        play.step([(number * MINUTE, key, 0) for key in ("a" if number else "abcdefg")], number * MINUTE)
        found.append(play.step([], (number + 1) * MINUTE)[0][3])
    assert found == [None, 1, 2, None, 1, 2]


def test_a_micro_batch_that_is_repeated_gives_the_same():
    """What was left by one that was not committed is not seen."""
    window = hopping("6 minutes", advance="2 minutes")
    play = Play(window, numbered, "n long, before long", states=declared(KEY, None, None, "1 hour", window))
    greatest = START
    for batch in cut(sorted(records_of(9)), 3):
        again = deepcopy(play)
        rows = play.step(batch, greatest)
        assert again.step(batch, greatest) == rows
        greatest = max([greatest, *(time for time, _, _ in batch)])
    assert any(name.endswith("states key") for name in header(play).lists)


def test_keys_that_pause_are_forgotten():
    """Their rows leave the state with the next micro-batch that writes it."""
    window = tumbling("1 minute")
    play = Play(window, numbered, "n long, before long", states=declared(KEY, None, None, None, window))
    for number in range(200):
        play.step([(number * MINUTE, f"k{number}", 1)], number * MINUTE)
    assert sum(text.count("") for text in play.store.pages.values()) < 20_000
    rows = play.step([], 201 * MINUTE)
    assert [row[3] for row in rows] == [1]


TYPES = {
    "boolean": True,
    "string": "é",
    "double": 0.5,
    "timestamp": None,
    "array<bigint>": [1, None, 3],
    "struct<a:string,b:double>": {"a": "x", "b": None},
    "decimal(5,2)": None,
    "binary": b"\x00",
}


@pytest.mark.parametrize("kind", TYPES)
def test_types_of_states(kind):
    """Values come back as they were set, after the state was written and read."""
    window, value = tumbling("1 minute"), TYPES[kind]
    got = []

    def keep(key, window, records, context):
        got.append((context.key_state.value, context.key_state.n))
        context.key_state.value, context.key_state.n = value, 1
        return None

    play = Play(window, keep, "n long", states=declared(f"value {kind}, n int", None, None, None, window))
    play.stream([[(0, "a", 1)], [(MINUTE, "a", 1)], [(2 * MINUTE, "a", 1)]])
    assert got == [(None, None), (value, 1), (value, 1)]


def wrong_field(state):
    state.m = 1


def wrong_type(state):
    state.n = "text"


def fraction(state):
    state.n = 2.5


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (wrong_field, FunctionFailed, "no field `m`; it has n"),
        (wrong_type, InvalidType, "`key_state` holds `n bigint`; got 'text'"),
        (fraction, InvalidType, "got 2.5"),
    ],
)
def test_what_is_no_state_is_told_by_key_and_window(fault, error, message):
    window = tumbling("1 minute")

    def keep(key, window, records, context):
        if window.start_us:
            fault(context.key_state)
        return []

    play = Play(window, keep, "n long", states=declared("n long", None, None, None, window))
    with pytest.raises(error, match=message) as caught:
        play.stream([[(0, "a", 1), (MINUTE, "a", 1)]])
    assert "key ('a',) in window [1970-01-01T00:01:00" in str(caught.value)


def test_a_clear_that_raises_is_told_by_key_and_window():
    window = tumbling("1 minute")

    def keep(key, window, records, context):
        context.window_state.n = 1
        return []

    play = Play(window, keep, "n long", states=declared(None, "n long", lambda *call: 1 / 0, None, window))
    with pytest.raises(FunctionFailed, match=r"`clear` raised.*ZeroDivision.* key \('a',\) in window \[1970"):
        play.stream([[(0, "a", 1)]])


@pytest.mark.parametrize("other", [None, "n double", "n long, m long"])
def test_another_state_is_refused_by_name(other):
    window = tumbling("1 minute")

    def keep(key, window, records, context):
        return []

    play = Play(window, keep, "n long", states=declared("n long", None, None, None, window))
    play.step([(0, "a", 1)], 0)
    changed = Play(window, keep, "n long", states=declared(other, None, None, None, window))
    changed.store = play.store
    with pytest.raises(StateMismatch, match="states: `key: n bigint` in the checkpoint, `"):
        changed.step([], 0)


REFUSED = {
    "sessions": ((None, "n long", None, None, session("1 minute")), "merge with others"),
    "lengths": (("n long", None, None, None, session("1 minute")), "needs `key_ttl`"),
    "zone": (("n long", None, None, None, cumulating("10 minutes", step="1 minute")), "needs `key_ttl`"),
    "no time": (("n long", None, None, "1 hour", unbounded()), "whose `ttl=` forgets keys"),
    "no key": ((None, "n long", None, "1 hour", tumbling("1 minute")), "there is no `key_state`"),
    "negative": (("n long", None, None, "0 seconds", tumbling("1 minute")), "must be positive"),
    "clear": ((None, None, print, None, tumbling("1 minute")), "there is none"),
    "twice": (("n long, n int", None, None, None, tumbling("1 minute")), "cannot be called `n`"),
    "method": (("values long", None, None, None, tumbling("1 minute")), "cannot be called `values`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_states_that_have_no_meaning_are_refused(name):
    given, message = REFUSED[name]
    with pytest.raises(InvalidValue, match=message):
        declared(*given)


def test_states_of_another_type_are_refused():
    with pytest.raises(InvalidType, match="typed fields as DDL"):
        declared({"n": "long"}, None, None, None, tumbling("1 minute"))
    with pytest.raises(InvalidType, match="`clear` takes a function"):
        declared(None, "n long", "clear", None, tumbling("1 minute"))


# --- windows whose records are dropped --------------------------------------------------------------------------------


def test_the_state_of_a_window_is_cleared_when_its_records_are_dropped():
    """`clear` is called, and the next firing finds no state, as it finds no record; that of the key continues."""
    window, told = unbounded(), []
    states = declared(
        "n long", "firings long, records long", lambda key, window, own: told.append((*key, own.window_state.firings)),
        None, window
    )  # fmt: skip

    def counted(key, window, records, context):
        context.key_state.n = (context.key_state.n or 0) + 1
        return [(context.key_state.n, *row) for row in seen(key, window, records, context)]

    batches = [[(1, "a", 0)], [(2, "a", 0), (3, "b", 0)], [(4, "a", 0)], [(5, "a", 0)], [(6, "b", 0)] * 2]
    found = {}
    for purge in (True, False):
        trigger = early(records=2, per="window", final=False, purge=purge)
        play = Play(window, counted, "n long, " + FIRED, trigger=trigger, states=states)
        found[purge] = [(row[0], *row[3:6]) for batch in batches for row in play.step(batch, 0)]
        told, now = [], told
        assert now == ([("a", 1), ("a", 1), ("b", 1)] if purge else [])
    assert found[True] == [("a", 1, 1, 2), ("a", 2, 1, 2), ("b", 1, 1, 3)]
    assert found[False] == [("a", 1, 1, 2), ("a", 2, 2, 2), ("b", 1, 1, 3)]


def test_what_an_evictor_has_removed_is_forgotten_when_the_records_are_dropped():
    """Evicted are the first records of a window by their places: the records after a firing have those places anew."""
    window, batches = unbounded(), [[(1, "a", 1), (2, "a", 2)], [(3, "a", 3)], [(4, "a", 4), (5, "a", 5), (6, "a", 6)]]
    given = {}
    for purge in (True, False):
        trigger = early(records=2, per="window", final=False, purge=purge)
        play = Play(window, listed, "values string", trigger=trigger, after=[keep_last(1)])
        given[purge] = [row[3] for batch in batches for row in play.step(batch, 0)]
    assert given == {True: ["1 2", "3 4 5 6"], False: ["1 2", "2 3 4 5 6"]}


def listed(key, window, records, context):
    return [(" ".join(map(str, records["v"].to_pylist())),)]
