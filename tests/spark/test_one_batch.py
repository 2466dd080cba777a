"""An answer is of one micro-batch: which failures are asked again, and for what micro-batch."""

from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from slicing.errors import InvalidValue, StateMismatch
from slicing.spark import checkpoint
from slicing.spark.checkpoint import of_one_batch

describing = import_module("slicing.spark.describe")
GONE, REFUSED = PySparkException("[STDS_COMMITTED_BATCH_UNAVAILABLE] gone"), StateMismatch("another shape")
JOB_FAILED = Py4JError("An error occurred while calling o1.collectToPython.\n: a file is gone")
LOST = Py4JError("An error occurred while calling o1.getResult.\n: failed\n[CANNOT_LOAD_STATE_STORE.X] is gone.\n\tat")


@dataclass(frozen=True)
class At:
    """A state known by its micro-batches alone: the one that is read, the oldest and the newest."""

    batch: int
    first: int
    last: int


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(checkpoint.time, "sleep", lambda seconds: None)


def asked(batches, failures, batch=None):
    """The micro-batches that are asked, where the newest is `batches` in turn and these failures are met.

    The checkpoint has two micro-batches.
    """
    opened, left, seen = iter(batches), list(failures), []

    def ask(state):
        seen.append(state.batch)
        if left and (failure := left.pop(0)) is not None:
            raise failure
        return seen

    def state(at):
        newest = next(opened)
        return At(newest if at is None else at, newest - 1, newest)

    return of_one_batch(state, ask, batch)


@pytest.mark.parametrize(
    ("batches", "failures", "seen"),
    [
        ([3], [], [3]),
        ([3, 3], [GONE], [3, 3]),
        ([3, 3, 3], [GONE, GONE], [3, 3, 3]),
        ([3, 5], [GONE], [3, 5]),
        ([3, 5], [REFUSED], [3, 5]),
        ([3, 5, 5], [GONE, GONE], [3, 5, 5]),
        ([3, 3, 5], [GONE, GONE], [3, 3, 5]),
        ([3, 3, 5], [JOB_FAILED, LOST], [3, 3, 5]),
    ],
)
def test_a_failure_is_asked_again(batches, failures, seen):
    assert asked(batches, failures) == seen


@pytest.mark.parametrize(
    ("batches", "failures", "error"),
    [
        ([3, 3], [REFUSED], StateMismatch),
        ([3, 5, 7], [GONE, GONE], PySparkException),
        ([3, 3, 3, 3], [GONE, GONE, GONE], PySparkException),
        ([3, 3, 3, 3], [JOB_FAILED, JOB_FAILED, JOB_FAILED], Py4JError),
        ([3, 3, 3, 5], [LOST, LOST, LOST], Py4JError),
        ([3, 5, 7], [LOST, LOST], Py4JError),
    ],
)
def test_the_last_failure_is_raised(batches, failures, error):
    """What is refused without a new micro-batch is refused at once; a second new micro-batch is not taken."""
    with pytest.raises(error):
        asked(batches, failures)


def test_no_other_micro_batch_is_taken_for_the_one_that_was_asked_for():
    """It is asked again as long as it is there; else the error says that it has been removed meanwhile."""
    assert asked([3, 4], [GONE], batch=3) == [3, 3]
    for failure in (GONE, REFUSED):
        with pytest.raises(InvalidValue, match=r"micro-batch 3 was removed .* the checkpoint has 4 to 5"):
            asked([4, 5], [failure], batch=3)
    with pytest.raises(StateMismatch):
        asked([3, 4], [REFUSED], batch=3)


def test_state_that_cannot_be_loaded_is_said():
    """But not if the query has committed another micro-batch, and may have removed it."""
    with pytest.raises(StateMismatch, match=r"read: \[CANNOT_LOAD_STATE_STORE.X\] is gone\. The .* `describe\("):
        asked([3, 3, 3, 3], [LOST, LOST, LOST])


@pytest.mark.parametrize("newest", [3, 4])
def test_what_a_running_query_has_removed_is_no_damage(monkeypatch, newest):
    """`describe` reads partitions one by one only of a micro-batch that is still the last."""

    session = type("Session", (), {"readStream": None})()

    def one_batch(*_):
        raise LOST

    opened = iter([SimpleNamespace(last=last, readable=lambda: ("the rest", ["lost"])) for last in (3, newest)])
    monkeypatch.setattr(describing, "state", lambda *_: next(opened))
    monkeypatch.setattr(describing, "of_one_batch", one_batch)
    monkeypatch.setattr(describing, "_described", lambda *found: found)
    with nullcontext() if newest == 3 else pytest.raises(Py4JError, match="LOAD_STATE_STORE"):
        assert describing.describe(session, "checkpoint") == ("the rest", ["lost"])
