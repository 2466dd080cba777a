"""Writers that are killed, that run twice, and readers beside them; a store that dies and comes back."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from serving import in_process
from serving.in_process import CARD, KEYS, MINUTE, START, write

from slicing import InvalidValue, serve_to
from slicing.serving import Reader, store_of
from slicing.serving.manifest import instant_of

TESTS = Path(in_process.__file__).resolve().parents[1]
WHOLE = 20
"""The records of ten minutes, two in each, before the watermark."""


def started(*given):
    """A process that writes micro-batches, see `in_process`."""
    path = os.pathsep.join(map(str, (TESTS, TESTS.parent)))
    command = [sys.executable, in_process.__file__, *map(str, given)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


def stored(url):
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return connection.execute("SELECT * FROM slices ORDER BY key, level, slice_start").fetchall()


def test_a_writer_that_is_killed_before_its_progress_repeats_the_micro_batch(tmp_path):
    url, other = (f"sqlite:///{tmp_path}/{name}.db" for name in ("killed", "whole"))
    assert started(url, 0, 15, 15).wait() == -signal.SIGKILL  # the first publish claims the epoch
    reader = Reader(url, CARD)
    answer = reader.read("ada", at="watermark")
    assert answer.as_of.batch == 13
    assert answer["m10"] == {"n": WHOLE}
    # The rows of the last one are there, and newer than its progress says.
    assert reader.read("ada", at=START + 60 * MINUTE)["d"]["n"] == 2 * 14 + 1
    to, whole = serve_to(url), serve_to(other)
    for number in range(14, 20):
        write(to, number)
    for number in range(20):
        write(whole, number)
    assert stored(url) == stored(other)
    for key in KEYS:
        assert dict(reader.read(key, at="watermark")) == dict(Reader(other, CARD).read(key, at="watermark"))


def test_two_processes_write_the_same_micro_batches(tmp_path):
    url, other = (f"sqlite:///{tmp_path}/{name}.db" for name in ("two", "one"))
    both = [started(url, 0, 30) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    whole = serve_to(other)
    for number in range(30):
        write(whole, number)
    assert stored(url) == stored(other)
    answer, wanted = (Reader(each, CARD).read("bob", at="watermark") for each in (url, other))
    assert dict(answer) == dict(wanted)
    assert (answer.as_of.batch, answer.watermark) == (wanted.as_of.batch, wanted.watermark)


def published(url):
    """Whether a reader finds the feature set."""
    try:
        return Reader(url, CARD) is not None
    except InvalidValue:
        return False


def beside(url, batches, most):
    """Read while a process writes micro-batches; return how many answers there were, and the last micro-batch."""
    writing, deadline = started(url, 0, batches), time.monotonic() + most
    try:
        while not published(url):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return read_until(lambda: writing.poll() is not None or time.monotonic() > deadline, Reader(url, CARD))
    finally:
        writing.kill()
        writing.wait()


def read_until(is_over, reader):
    """Check that each answer is that of one micro-batch, or of newer slices, and that none is older than the last."""
    choice, answers, last = random.Random(7), 0, 0
    while not is_over():
        key, ahead = choice.choice(KEYS), choice.choice([None, 1, 5])
        until = None if ahead is None else last + ahead
        answer = reader.read(key, at="watermark" if until is None else START + until * MINUTE)
        batch = answer.as_of.batch
        assert batch >= last
        last, answers = batch, answers + 1
        if until is None:
            # A micro-batch with only its rows has newer slices, but none before the watermark.
            assert answer["m10"] == {"n": 2 * min(10, max(0, batch - 1))}
        elif answer["d"] is not None:
            assert of_a_day(until, batch) <= answer["d"]["n"] <= of_a_day(until, batch + 1)
    return answers, last


def of_a_day(until, batch):
    """The records of a key in the day before a minute, as of a micro-batch."""
    return sum(2 if minute < batch else 1 for minute in range(max(0, until - 24 * 60), min(batch + 1, until)))


def test_a_reader_beside_a_writer(tmp_path):
    answers, batch = beside(f"sqlite:///{tmp_path}/features.db", 300, 60)
    assert answers > 100
    assert batch > 30


@pytest.mark.long
def test_a_reader_beside_a_writer_for_minutes(tmp_path):
    answers, _ = beside(f"sqlite:///{tmp_path}/features.db", 1_000_000, 600)
    assert answers > 10_000


def test_a_store_that_dies_and_comes_back(tmp_path):
    class Dies:
        """A store that is not there for a while."""

        def __init__(self, of):
            self.of, self.is_dead = of, False

        def __getattr__(self, name):
            if self.is_dead:
                raise ConnectionError("nobody listens")
            return getattr(self.of, name)

    store = Dies(store_of(f"sqlite:///{tmp_path}/features.db"))
    to = serve_to(store)
    for number in range(15):
        write(to, number)
    reader = Reader(store, CARD)
    before = reader.read("ada", at="watermark")
    store.is_dead = True
    with pytest.raises(ConnectionError):
        write(to, 15)
    with pytest.raises(ConnectionError):
        reader.read("ada")
    store.is_dead = False
    assert reader.read("ada", at="watermark")["m10"] == before["m10"]
    write(to, 15)
    assert reader.read("ada", at="watermark").as_of.batch == 15


def test_sqlite_keeps_what_it_has_acknowledged(tmp_path):
    with store_of(f"sqlite:///{tmp_path}/features.db")._connection() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: commits survive a power failure


def test_an_emptied_store_is_not_continued(tmp_path):
    store = store_of(f"sqlite:///{tmp_path}/features.db")
    to = serve_to(store)
    for number in range(15):
        write(to, number)
    store._connection().executescript("DELETE FROM slices; DELETE FROM feature_sets")
    with pytest.raises(InvalidValue, match="this one has no `user` before micro-batch 15"):
        write(to, 15)
    write(to, 0, "new")
    assert Reader(store, CARD).read("ada", at=START + MINUTE)["m10"] == {"n": 1}


class Fails:
    """A store that fails when it would publish progress, by default for the second time."""

    def __init__(self, of, left=1):
        self.of, self.left = of, left

    def __getattr__(self, name):
        return getattr(self.of, name)

    def publish(self, *given):
        if not self.left:
            raise RuntimeError("the power is gone")
        self.left -= 1
        return self.of.publish(*given)


def test_no_checkpoint_goes_on_after_the_first_rows_of_a_newer_one(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/features.db"
    for number in range(15):
        write(serve_to(url), number)
    with monkeypatch.context() as broken:
        broken.setattr(in_process, "computed", None)
        with pytest.raises(TypeError):  # the micro-batch cannot be computed
            write(serve_to(url), 0, "new")
    write(serve_to(url), 15)
    with pytest.raises(RuntimeError, match="the power is gone"):
        write(serve_to(Fails(store_of(url))), 0, "new")  # its rows would replace all later ones of the older checkpoint
    with pytest.raises(InvalidValue, match="a newer one than this has written it: epoch 2, this is 1"):
        write(serve_to(url), 16)
    for number in range(20):
        write(serve_to(url), number, "new")
    assert Reader(url, CARD).read("ada", at="watermark")["d"] == {"n": 2 * 18}


def test_the_watermark_is_that_of_the_checkpoint_that_has_taken_over(tmp_path):
    url = f"sqlite:///{tmp_path}/features.db"
    for number in range(15):
        write(serve_to(url), number)
    reader = Reader(url, CARD)
    for number in range(2, 25):
        for earlier in range(number + 1) if number == 2 else [number]:
            write(serve_to(url), earlier, "new")
        answer = reader.read("ada", at="watermark")
        assert answer.watermark == answer.at == instant_of(in_process.watermark(number))
        assert answer["m10"] == {"n": 2 * min(number - 1, 10)}


def test_a_clock_that_steps_back(tmp_path):
    url = f"sqlite:///{tmp_path}/features.db"
    to = serve_to(url)
    for number in range(15):
        to.clock = lambda now=START + (40 - number) * MINUTE: now
        write(to, number)
    reader = Reader(url, CARD)
    reader._clock = lambda: START + 13 * MINUTE
    answer = reader.read("ada", max_age="1 second")
    assert answer["m10"] == {"n": WHOLE}
    assert answer.age.total_seconds() == 0
    reader._clock = lambda: START + 5 * MINUTE
    answer = reader.read("ada")
    assert answer["m10"] == {"n": 10}
    assert answer["d"] is None  # its first slices may have been removed, by a watermark that is later
