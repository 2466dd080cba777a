"""Served slices in PostgreSQL: the answers are those of SQLite, and a closed connection is opened again."""

import random
import sys

import pytest
from serving.stored import publish, rows
from serving.test_reader import CASES, HOUR, MINUTE, START, definition, made, records

import combinators as C
from servers.postgres import postgres
from servers.process import Unavailable
from slicing import MissingRequirement, hopping
from slicing.serving import Reader, store_of

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def address():
    try:
        with postgres() as running:
            yield running
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def empty(address):
    """The address, of which all tables are new."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS slices, feature_sets")
    return address


def test_answers_are_those_of_sqlite(empty, tmp_path):
    windows, _ = CASES["tails"]
    card, choice = definition(windows), random.Random(1)
    held = records(1, START, 30 * HOUR)
    written = store_of(empty)
    written.put("user", rows(card, held))
    publish(written, card)
    readers = [Reader(empty, card), Reader(made(tmp_path, card, held), card)]
    for _ in range(50):
        key, t = choice.choice(["ada", "é", "nobody"]), START + choice.randint(0, 60 * HOUR)
        one, other = (reader.read(key, at=t) for reader in readers)
        assert dict(one) == dict(other)
        assert one.starts == other.starts
    for each in (written, *readers):
        each.close()


def test_only_newer_rows_replace_rows_and_rows_are_removed_in_portions(empty):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    written = store_of(empty)
    publish(written, card)
    reader, answers = Reader(written, card), []
    for epoch, batch, count in ((1, 3, 1), (1, 3, 2), (1, 2, 3), (1, 4, 4), (2, 0, 5), (1, 9, 6)):
        written.put("user", rows(card, [{"key": "ada", "ts": START}] * count, batch, epoch))
        answers.append(next(iter(reader.read("ada", at=START + 1).values()))["n"])
    assert answers == [1, 1, 1, 4, 5, 5]
    written.put("user", rows(card, [{"key": str(at % 7), "ts": START + at * MINUTE} for at in range(1, 100)]))
    assert [written.remove("user", 0, START + 50 * MINUTE, 20) for _ in range(4)] == [20, 20, 10, 0]
    written.close()
    reader.close()


def test_a_closed_connection_is_opened_again(empty):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    written = store_of(empty)
    publish(written, card)
    reader = Reader(written, card)
    with psycopg.connect(empty, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    written.put("user", rows(card, [{"key": "ada", "ts": START}]))
    assert next(iter(reader.read("ada", at=START + 1).values())) == {"n": 1}
    written.close()
    reader.close()


def test_the_driver_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingRequirement, match=r"pip install \"spark-slicing\[postgresql\]\""):
        store_of("postgresql://host/database")
