"""An answer is of one micro-batch: which failures are asked again, and of which micro-batch."""

from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException

from slicing.errors import StateMismatch
from slicing.spark import checkpoint
from slicing.spark.checkpoint import of_one_batch

GONE, REFUSED = PySparkException("[STDS_COMMITTED_BATCH_UNAVAILABLE] gone"), StateMismatch("another shape")


@dataclass(frozen=True)
class At:
    """A state of which only the micro-batch is known."""

    batch: int


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(checkpoint.time, "sleep", lambda seconds: None)


def asked(batches, failures):
    """The micro-batches that are asked, where the last one is `batches` in turn and these failures are met."""
    opened, left, seen = iter(batches), list(failures), []

    def ask(state):
        seen.append(state.batch)
        if left and (failure := left.pop(0)) is not None:
            raise failure
        return seen

    return of_one_batch(lambda: At(next(opened)), ask)


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
