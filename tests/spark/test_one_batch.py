"""An answer is of one micro-batch: which failures are asked again, and of which micro-batch."""

from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException

from slicing.errors import InvalidValue, StateMismatch
from slicing.spark import checkpoint
from slicing.spark.checkpoint import of_one_batch

GONE, REFUSED = PySparkException("[STDS_COMMITTED_BATCH_UNAVAILABLE] gone"), StateMismatch("another shape")


@dataclass(frozen=True)
class At:
    """A state of which only micro-batches are known: the one that is read, the oldest and the newest."""

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
