"""A trigger is one file: this one fires in every second micro-batch, on each kind of windows, and no engine knows it.

Its rows are those of `early(every="2 milliseconds")`, which brute force checks elsewhere, where the clock moves by a
millisecond in each micro-batch.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from oracle import CASES, moment
from sessions import World as Sessions
from sessions import stream as sessions_stream
from sliding import World as Sliding
from sliding import stream as sliding_stream
from test_several import Together, sets
from test_several import stream as several_stream
from test_several_eager import Eager, Mixed
from test_unbounded import Forever
from test_unbounded import records as unbounded_records

from slicing.errors import InvalidValue
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.triggers.emission import early
from slicing.triggers.trigger import CLOSING, FINAL, WAITING, Engine, Firing, MicroBatchTime, Trigger
from slicing.windows.counting import counting
from slicing.windows.session import session
from slicing.windows.sliding import sliding


@dataclass(frozen=True)
class EverySecond(Trigger):
    """Open windows with records since the last firing, in each second micro-batch; and all as they close."""

    asks = frozenset({CLOSING, WAITING})
    meaning = "in every second micro-batch the open windows that got a record since"

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        yield FINAL, engine.closing().results()

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        if engine.head.revision % 2:
            engine.waiting.none()
        else:
            yield "early", engine.waiting.all().results()


TICKS = early(every="2 milliseconds")


def of_families(made, name, wide=False):
    families, begin, step = sets()[name]
    chosen = [CASES["sum"], CASES["highest"]]
    found = []
    for trigger in (EverySecond(), TICKS):
        bucket = made(families, chosen, 0, trigger, wide)

        def run(batch, number, bucket=bucket):
            came, watermark, _ = batch
            return bucket.step(came, watermark, number)[0]

        found.append(run)
    return found, list(several_stream(random.Random(3), begin, step))


def of_world(world, window, stream):
    found = []
    for trigger in (EverySecond(), TICKS):
        one = world(window, emission=trigger)

        def run(batch, number, one=one):
            came, watermark = batch
            bucket = one.bucket()
            bucket.accept(one.shipped(came) if came else [])
            return one.rows(bucket.close(moment(watermark, number)))

        found.append(run)
    return found, list(stream(random.Random(4), 40))


def of_unbounded():
    found, rng = [], random.Random(5)
    for trigger in (EverySecond(), TICKS):
        one = Forever(trigger)

        def run(batch, number, one=one):
            return one.step(batch, number)

        found.append(run)
    return found, [unbounded_records(rng) for _ in range(40)]


KINDS = {
    "hopping": lambda: of_families(Together, "seldom beside always"),
    "side by side": lambda: of_families(Together, "ends together", wide=True),
    "cumulating": lambda: of_families(Together, "cumulating"),
    "eager": lambda: of_families(Eager, "longest in the middle"),
    "mixed": lambda: of_families(Mixed, "ends together"),
    "sessions": lambda: of_world(Sessions, session("10 milliseconds"), sessions_stream),
    "sliding": lambda: of_world(Sliding, sliding("10 milliseconds"), sliding_stream),
    "unbounded": of_unbounded,
}


@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trigger_of_ones_own_fires_on_every_kind_of_windows(kind, held):
    (own, ticking), batches = KINDS[kind]()
    fired = 0
    for number, batch in enumerate(batches, 1):
        if not held:
            memory._kept.clear()
        found = own(batch, number)
        assert found == ticking(batch, number)
        fired += len(found) if number % 2 == 0 else 0
    assert fired > 30


def test_a_kind_that_cannot_answer_refuses_it_with_its_reason():
    with pytest.raises(InvalidValue, match=r"EverySecond\(\) fires windows that are not full"):
        support_of(counting(5)).check("auto", False, EverySecond(), True)
