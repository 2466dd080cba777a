"""Served windows go on from the state and the store that were first written, with the values of the raw records."""

import sqlite3
from base64 import b64decode
from contextlib import closing

from golden.make import load
from golden.served import NAME, WINDOWS, definition, records, stream
from serving.in_buckets import SLICE, Served
from serving.test_served import floor, hop, micros
from streams import HOUR, MINUTE
from test_golden import content

from slicing import serve_to
from slicing.serving import Progress, Reader

STORED = load(NAME)
STARTS = {"m10": hop(10 * MINUTE, SLICE), "h4": hop(4 * HOUR, SLICE)}


def opened(name):
    """The query as it was, and the micro-batches that it has not had."""
    stored, query = STORED[name], stream()
    query.state.text, query.state.pages = stored["header"], dict(stored["pages"])
    query.read = [each for some in stored["batches"][: stored["seen"]] for each in records(some)]
    query._watermark, query._past = stored["watermark"], stored["past"]
    return query, [records(some) for some in stored["batches"][stored["seen"] :]]


def answers(reader, query):
    """The values of a key in each window as of each of the last edges, compared; None where a window is not whole."""
    for end in range(floor(query.known, SLICE), query.end + SLICE, SLICE):
        answer = reader.read("ada", at=end)
        for name, values in answer.items():
            start = STARTS[name](end)
            held = [each for each in query.read if each["key"] == "ada" and start <= each["ts"] < end]
            assert micros(answer.starts[name]) == start
            assert values is None or (values["n"], values["total"]) == _wanted(held)
            yield name, values


def _wanted(held):
    numbers = [each["n"] for each in held if each["n"] is not None]
    return len(held), sum(numbers) if numbers else None


def test_a_history_is_served_with_the_first_micro_batch(tmp_path):
    assert content(STORED["history"]["header"])["untold"] is True
    url, served = f"sqlite:///{tmp_path}/features.db", Served(definition(*WINDOWS))
    query, left = opened("history")
    until, found = max(each["ts"] for each in query.read) + 1, []
    for some in left:
        query.step(served, serve_to(url), [each for each in some if each["ts"] >= until])
        assert "untold" not in content(query.state.text)
        found += answers(Reader(url, served.card), query) if query.known else ()
    assert {name for name, values in found if values and values["n"]} == {*WINDOWS}


def test_a_store_goes_on_with_the_window_that_was_added(tmp_path):
    file = tmp_path / "features.db"
    file.write_bytes(b64decode(STORED["added"]["store"]))
    with closing(sqlite3.connect(file)) as database:
        ((told,),) = database.execute("SELECT progress FROM feature_sets").fetchall()
    progress = Progress.read(told)
    assert progress.text() == told
    assert progress.newest is not None
    assert [since is not None for _, since in progress.windows] == [False, True]
    url, served = f"sqlite:///{file}", Served(definition(*WINDOWS))
    query, left = opened("added")
    query.number, query.known = STORED["added"]["seen"], progress.watermark
    found = [*answers(Reader(url, served.card), query)]
    assert any(values is None for _, values in found)
    for some in left:
        query.step(served, serve_to(url), some)
        found += answers(Reader(url, served.card), query) if query.known else ()
    assert {name for name, values in found if values is None} == {"h4"}
    assert found[-1][1] is not None
