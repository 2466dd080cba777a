"""A trigger is one file: this one fires in every second micro-batch on each kind of windows; no engine knows it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from scenarios.due import DUE, Due
from scenarios.kinds import KINDS
from test_scenarios import allowed, run, scenario

from slicing.errors import InvalidValue
from slicing.stages.support_of import support_of
from slicing.triggers.trigger import CLOSING, FINAL, WAITING, Engine, Firing, MicroBatchTime, Trigger
from slicing.windows.counting import counting


@dataclass(frozen=True)
class EverySecond(Trigger):
    """Open windows with records since the last firing, in each second micro-batch; and all as they close."""

    asks = frozenset({CLOSING, WAITING})
    meaning = "in every second micro-batch the open windows that got a record since"

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        yield FINAL, engine.closing().results()

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        if engine.head.revision % 2:
            engine.waiting.none()
        else:
            yield "early", engine.waiting.all().results()


class Second(Due):
    """All keys, in every second micro-batch."""

    number = 0

    def keys(self, parts):
        self.number += 1
        return super().keys(parts)

    def is_due(self, count, now):
        return self.number % 2 == 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "content", "_"), list(allowed({"own": EverySecond()})))
def test_a_trigger_of_ones_own_fires_on_every_kind_of_windows(kind, content, _, monkeypatch):
    monkeypatch.setitem(DUE, EverySecond, Second)
    rng, fired = random.Random(f"own {kind} {content}"), 0
    for _ in range(5):  # streams, until one more would show little
        made = scenario(rng, kind, content, EverySecond())
        run(rng, made, batches=12)
        fired += made.seen["early"]
        least = 10 if made.kind.is_endless else 0
        if fired > least:
            break
    assert fired > least
    assert len(KINDS) > 20


def test_a_kind_that_cannot_answer_refuses_it_with_its_reason():
    with pytest.raises(InvalidValue, match=r"EverySecond\(\) fires windows that are not full"):
        support_of(counting(5)).check("auto", False, EverySecond(), True)
