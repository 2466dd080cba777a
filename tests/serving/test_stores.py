"""The protocol of a store, by each of the stores and the one in the docs: what is written, read and removed."""

import gc
import math
import pickle
import random
import re
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from serving import in_process
from serving.stored import KINDS, publish, rows
from serving.test_reader import CASES, HOUR, MINUTE, START, compare, definition, micros, records

import combinators as C
from servers.postgres import postgres
from servers.process import Unavailable
from servers.redis import redis
from slicing import InvalidType, InvalidValue, hopping, serve_to
from slicing.serving import Progress, Range, Reader, Row, store_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


def in_memory():
    """The class of a store in the docs."""
    (code,) = re.findall(r"```python\n(from threading.*?)\n\n\nwrite = ", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code, names)
    return names["InMemory"]()


def of_postgres():
    psycopg = pytest.importorskip("psycopg", reason="it is in the group `servers`")

    def empty(address):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS slices, feature_sets")

    return postgres, empty


def of_redis():
    driver = pytest.importorskip("redis", reason="it is in the group `servers`")

    def empty(address):
        with driver.Redis.from_url(address) as client:
            client.flushall()

    return redis, empty


SERVERS = {"postgresql": of_postgres, "redis": of_redis}


@pytest.fixture(
    scope="module", params=["memory", "sqlite", *(pytest.param(each, marks=pytest.mark.servers) for each in SERVERS)]
)
def kind(request):
    """The name of a store, and for one of a server its address and what empties it."""
    if request.param not in SERVERS:
        yield request.param, None, None
        return
    start, empty = SERVERS[request.param]()
    try:
        with start() as address:
            yield request.param, address, empty
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def store(kind, tmp_path):
    """An empty store."""
    name, address, empty = kind
    if empty is not None:
        empty(address)
    made = in_memory() if name == "memory" else store_of(address or f"sqlite:///{tmp_path}/features.db")
    yield made
    close(made)


def close(store):
    """Close what a store holds open for this thread."""
    getattr(store, "close", lambda: None)()


def at_once(function):
    """Call a function in three threads."""
    threads = [threading.Thread(target=function) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_windows_of_one_and_of_many_keys_equal_raw_records(store):
    windows, starts = CASES["tails"]
    card, choice = definition(windows), random.Random(1)
    held = records(1, START, 30 * HOUR, count=150)
    store.put("user", rows(card, held))
    publish(store, card)
    reader, keys = Reader(store, card), ["nobody", "ada", "é"]
    for _ in range(20):
        t = START + choice.randint(0, 60 * 60) * MINUTE
        for key, answer in zip(keys, reader.read_many(keys, at=t), strict=True):
            assert dict(answer) == dict(reader.read(key, at=t))
            for name, start in zip(answer, starts, strict=True):
                assert micros(answer.starts[name]) == start(t)
                compare(answer[name], [each for each in held if each["key"] == key and start(t) <= each["ts"] < t])


FLOATS = [-0.0, 1.5, -2.5e-308, 5e-324, 1.7976931348623157e308, -math.inf, math.inf, math.nan, math.pi, -1e-40]
SHORT = np.array([-0.0, 1.5, -1e-38, 1e-45, 3.4e38, -math.inf, math.inf, math.nan, math.pi, -1e-40], "f4").tolist()
INTEGERS = [-(2**63), 2**63 - 1, -1, 0, 1, 255, 256, -256, -(2**31), None]


def test_sql_reads_the_numbers_of_partials(store, kind):
    """A record a minute: the numbers of its slice are those of the record, to the bit."""
    results = {"n": C.count(), "low": C.min("n"), "x": C.max("x"), "y": C.max("y"), "s": C.max("s"), "sum": C.sum("n")}
    card, kinds = definition([hopping("10 minutes", "1 minute")], results), KINDS | {"y": "float"}
    held = [
        {"key": "ada", "ts": START + at * MINUTE, "n": n, "x": x, "y": y, "s": "é"}
        for at, (n, x, y) in enumerate(zip(INTEGERS, FLOATS, SHORT, strict=True))
    ]
    store.put("it's", rows(card, held, kinds=kinds))
    publish(store, card, name="it's", kinds=kinds)
    reader = Reader(store, card, feature_set="it's")
    if kind[0] in ("memory", "redis"):
        with pytest.raises(InvalidType, match=r"has none\. Serve to SQLite or PostgreSQL"):
            reader.sql()
        return
    cursor = store._connection().execute(f"SELECT * FROM ({reader.sql()}) AS numbers ORDER BY slice_start")
    names = [each[0] for each in cursor.description]
    found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row, each in zip(found, held, strict=True):
        assert (row["key"], row["slice_start"], row["records"], row["n"]) == ('["ada"]', each["ts"], 1, 1)
        assert row["low.n"] == row["sum.n"] == (each["n"] is not None)
        assert row["low.value"] == (each["n"] or row["low.value"])
        assert (row["sum.high"] << 32) + row["sum.low"] == (each["n"] or 0)
        for name in "xy":
            value = math.nan if row[f"{name}.value"] is None else row[f"{name}.value"]
            assert struct.pack("d", value) == struct.pack("d", each[name]), each
    assert not any(name.startswith("s.value") for name in names)


def test_a_row_is_replaced_only_by_a_newer_one(store):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    publish(store, card)
    reader, answers = Reader(store, card), []
    for epoch, batch, count in ((1, 3, 1), (1, 3, 2), (1, 2, 3), (1, 4, 4), (2, 0, 5), (1, 9, 6)):
        store.put("user", rows(card, [{"key": "ada", "ts": START}] * count, batch, epoch))
        answers.append(next(iter(reader.read("ada", at=START + 1).values()))["n"])
    assert answers == [1, 1, 1, 4, 5, 5]


@pytest.mark.parametrize("seed", range(3))
def test_rows_written_in_any_order_are_those_of_the_newest_versions(store, seed):
    choice, wanted = random.Random(seed), {}
    store.publish("user", "manifest", "progress", "")
    for step in range(40):
        written = [
            Row(
                choice.choice(['["a"]', '["é:[1]"]', '["c"]']),
                choice.randint(0, 2),
                start := choice.randint(-8, 8) * MINUTE + choice.choice([0, START]),
                start + MINUTE,
                1,
                choice.randbytes(choice.choice([1, 3, 200])),
                choice.randint(1, 2),
                choice.randint(0, 5),
            )
            for _ in range(choice.choice([1, 3, 250]))
        ]
        unique = {row[:3]: row for row in written}  # a micro-batch has a row of a slice once
        store.put("user", list(unique.values()))
        for at, row in unique.items():
            if at not in wanted or row.version > wanted[at].version:
                wanted[at] = row
        if step % 10 == 9:
            before, level = choice.randint(-8, 8) * MINUTE + choice.choice([0, START]), choice.randint(0, 2)
            gone = [at for at, row in wanted.items() if row.level == level and row.end <= before]
            for at in gone:
                del wanted[at]
            removed = [store.remove("user", level, before, 7)]
            while removed[-1]:
                removed.append(store.remove("user", level, before, 7))
            assert sum(removed) == len(gone)
            assert max(removed) <= 7
        keys, low = ['["a"]', '["é:[1]"]', '["c"]', '["d"]'], choice.randint(-8, 0) * MINUTE
        ranges = [Range(level, low, choice.choice([3 * MINUTE, START + 3 * MINUTE])) for level in range(3)]
        assert store.read("user", keys, ranges).partials == [
            [
                [
                    row.partial
                    for at, row in sorted(wanted.items())
                    if at[:2] == (key, level) and lowest <= at[2] < highest
                ]
                for level, lowest, highest in ranges
            ]
            for key in keys
        ]


def test_rows_are_removed_in_portions(store):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    store.put("user", rows(card, [{"key": str(at % 7), "ts": START + at * MINUTE} for at in range(400)]))
    store.put("other", rows(card, [{"key": "ada", "ts": START}]))
    assert [store.remove("user", 0, START + 50 * MINUTE, 20) for _ in range(4)] == [20, 20, 10, 0]
    assert store.remove("user", 0, START + 350 * MINUTE, 1000) == 300
    assert store.remove("user", 1, START + 99 * HOUR, 20) == 0
    assert store.remove("other", 0, START + HOUR, 20) == 1


def test_keys_that_have_newer_rows_do_not_hold_up_the_removal_of_others(store):
    first = [Row(f'["{key}"]', 0, START + at, START + at + 1, 1, b"p", 1) for key in range(30) for at in (0, HOUR)]
    store.put("user", first)
    assert store.remove("user", 0, START + 1, 1000) == 30
    store.put("user", [Row('["new"]', 0, START + 5, START + 6, 1, b"p", 1)])
    assert store.remove("user", 0, START + 6, 10) == 1


def test_a_micro_batch_that_runs_twice_at_once_is_written_once(store):
    windows = [hopping("10 minutes", "1 minute"), hopping("3 hours", "1 minute", tail="1 hour")]
    card = definition(windows, {"n": C.count()})
    publish(store, card)
    held = records(3, START, 3 * HOUR)
    batches = [rows(card, held[: 80 * (batch + 1)], batch) for batch in range(4)]

    def write():
        for batch in (0, 1, 0, 2, 3, 1):
            store.put("user", batches[batch])
        close(store)

    at_once(write)
    ranges = [Range(level, START - HOUR, START + 4 * HOUR) for level in range(2)]
    for key in ("ada", "bob", "é"):
        stored = f'["{key}"]'
        assert store.read("user", [stored], ranges).partials == [
            [[row.partial for row in batches[-1] if row.key == stored and row.level == level] for level in range(2)]
        ]


def test_rows_that_are_removed_between_two_reads_make_no_part_of_a_window(store):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    held, t = records(4, START, HOUR), START + 20 * MINUTE
    store.put("user", rows(card, held))
    publish(store, card)
    reader = Reader(store, card)
    assert next(iter(reader.read("ada", at=t).values()))["n"] > 0
    publish(store, card, 1, gone=(t - 5 * MINUTE,))
    store.remove("user", 0, t - 5 * MINUTE, 1000)
    answer = reader.read("ada", at=t)
    assert list(answer.values()) == [None]
    assert [micros(each) for each in answer.known_from.values()] == [t - 5 * MINUTE]


def test_readers_beside_a_writer_see_micro_batches_whole_and_in_order(store):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count(), "low": C.min("n"), "high": C.max("n")})
    done = threading.Event()
    publish(store, card)

    def feed():
        for batch in range(1, 60):
            held = [{"key": key, "ts": START + at * MINUTE, "n": batch} for key in ("ada", "bob") for at in range(5)]
            store.put("user", rows(card, held, batch))
            publish(store, card, batch)
        done.set()
        close(store)

    reader, wrong = Reader(store, card), []

    def watch():
        last, batch = 0, 0
        while not done.is_set():
            answer = reader.read("ada", at=START + 5 * MINUTE)
            (values,) = answer.values()
            low, high = values["low"] or 0, values["high"] or 0
            if low != high or low < last or answer.as_of.batch < batch or low < answer.as_of.batch:
                wrong.append((last, batch, dict(values), answer.as_of))
            last, batch = low, answer.as_of.batch
        reader.close()

    threads = [threading.Thread(target=each) for each in (feed, watch, watch)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []


def test_what_is_not_there_is_empty(store):
    assert store.read("user", [], []) == ("", "", [])
    found = store.read("user", ['["ada"]'], [Range(0, 0, START)])
    assert (found.manifest, found.progress) == ("", "")
    store.publish("user", "manifest", "progress", "")
    assert store.read("user", ['["ada"]'], [Range(0, 0, START)]) == ("manifest", "progress", [[[]]])
    assert store.read("other", [], ()) == ("", "", [])


def test_a_store_of_a_url_is_that_of_its_url_in_another_process(store, kind):
    if kind[0] == "memory":
        pytest.skip("it is of one process")
    store.publish("user", "manifest", "progress", "")
    other = pickle.loads(pickle.dumps(store))
    assert other.read("user", [], ()).manifest == "manifest"
    other.close()


def test_a_thread_that_ends_closes_its_connection_without_a_warning(store, recwarn):
    def write_and_read():
        store.publish("user", "manifest", "progress", "")
        assert store.read("user", [], ()).manifest == "manifest"

    thread = threading.Thread(target=write_and_read)
    thread.start()
    thread.join()
    gc.collect()
    assert not recwarn.list


def test_progress_is_replaced_only_by_what_follows_it(store):
    def publish(progress, before):
        return store.publish("user", f"manifest of {progress}", progress, before)

    assert [publish("2", "1"), publish("1", ""), publish("2", ""), publish("3", "1"), publish("4", "3")] == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert store.read("user", [], ())[:2] == ("manifest of 4", "4")
    assert store.read("other", [], ())[:2] == ("", "")


def test_of_writers_that_publish_at_once_each_follows_another(store):
    def count():
        for _ in range(20):
            before = None
            while before is None or not store.publish("user", "manifest", str(int(before or 0) + 1), before):
                before = store.read("user", [], ()).progress
        close(store)

    at_once(count)
    assert store.read("user", [], ()).progress == "60"


class Overtaken:
    """A store whose user is slow: before its first call of a method, others write."""

    def __init__(self, of, method, others):
        self.of, self.method, self.others = of, method, others

    def __getattr__(self, name):
        return self._slow if name == self.method else getattr(self.of, name)

    def _slow(self, *given):
        others, self.others = self.others, lambda: None
        others()
        return getattr(self.of, self.method)(*given)


def write(store, numbers, query="query"):
    for number in numbers:
        in_process.write(serve_to(store), number, query)


def progress_of(store):
    return Progress.read(store.read("user", (), ()).progress)


@pytest.mark.parametrize(("method", "number"), [("put", 15), ("put", 12), ("publish", 15)])
def test_a_slow_writer_puts_no_progress_back(store, method, number):
    write(store, range(15))
    write(Overtaken(store, method, lambda: write(store, range(15, 20))), [number])
    found = progress_of(store)
    assert (found.batch, found.watermark) == (19, in_process.watermark(19))
    assert Reader(store, in_process.CARD).read("ada", at="watermark")["m10"] == {"n": 20}


def test_a_slow_checkpoint_does_not_take_the_place_of_a_newer_one(store):
    write(store, range(15))
    slow = Overtaken(store, "put", lambda: write(store, range(3), "new"))
    with pytest.raises(InvalidValue, match="a newer one than this has written it: epoch 2, this is 1"):
        write(slow, [15])
    found = progress_of(store)
    assert (found.epoch, found.batch) == (2, 2)


def test_a_checkpoint_that_takes_over_knows_of_all_rows_that_are_gone(store):
    write(store, range(15))
    write(Overtaken(store, "publish", lambda: write(store, range(15, 40))), [0], "new")
    found = progress_of(store)
    assert (found.epoch, found.batch) == (2, 0)
    assert found.gone == (in_process.watermark(39) - 24 * HOUR,)


def test_checkpoints_that_begin_at_once_have_numbers_of_their_own(store):
    write(store, range(15))
    with pytest.raises(InvalidValue, match="a newer one than this has written it: epoch 3, this is 2"):
        write(Overtaken(store, "put", lambda: write(store, range(3), "third")), [0], "second")
    write(Overtaken(store, "publish", lambda: write(store, range(3), "fourth")), [0], "fifth")
    assert progress_of(store).epochs == {"query": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
    assert progress_of(store).epoch == 5
