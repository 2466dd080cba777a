"""Stores of servers: what tests/serving/test_stores.py does not ask of all stores.

`make test-serving` runs both.
"""

import sys
from contextlib import contextmanager

import pytest
from serving.stored import publish, rows
from serving.test_reader import START, definition

import combinators as C
from servers.postgres import postgres
from servers.process import Unavailable
from servers.redis import redis
from slicing import InvalidValue, MissingRequirement, hopping
from slicing.serving import Reader, store_of

CARD = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})


@contextmanager
def started(server, *settings):
    """A server as the block's, or the test is skipped: what cannot be had is known once the block begins."""
    try:
        with server(*settings) as address:
            yield address
    except Unavailable as why:
        pytest.skip(str(why))


def read(reader):
    (values,) = reader.read("ada", at=START + 1).values()
    return values["n"]


def closed_by_postgresql(address):
    import psycopg

    with psycopg.connect(address, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


def closed_by_redis(address):
    from redis import Redis

    with Redis.from_url(address) as other:
        other.client_kill_filter(_type="normal", skipme=True)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("server", "package", "close"), [(postgres, "psycopg", closed_by_postgresql), (redis, "redis", closed_by_redis)]
)
def test_a_connection_that_a_server_has_closed_is_opened_again(server, package, close):
    pytest.importorskip(package, reason="it is in the group `servers`")
    with started(server) as address:
        written = store_of(address)
        publish(written, CARD)
        reader = Reader(written, CARD)
        close(address)
        written.put("user", rows(CARD, [{"key": "ada", "ts": START}]))
        assert read(reader) == 1
        reader.close()


@pytest.mark.servers
def test_a_server_that_evicts_slices_is_not_written_to():
    pytest.importorskip("redis", reason="it is in the group `servers`")
    with started(redis, "--maxmemory-policy", "allkeys-lru") as address:
        store = store_of(address)
        with pytest.raises(InvalidValue, match=r"must not remove slices on its own, and .* is allkeys-lru. Set it to"):
            publish(store, CARD)
        store.close()


@pytest.mark.parametrize(("package", "extra"), [("psycopg", "postgresql"), ("redis", "redis")])
def test_the_driver_is_named_if_it_is_missing(monkeypatch, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingRequirement, match=rf"pip install \"spark-slicing\[{extra}\]\""):
        store_of(f"{extra}://host/database")
