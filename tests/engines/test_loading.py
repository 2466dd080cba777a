"""Streams that begin with a history, of every kind of windows under every trigger, against the records alone.

history    * *  *   * **  *|                      the window [=====) straddles `until`: it is whole
stream                     | *  **   *  *
                         until
"""

import pytest
from scenarios.kind import PARTIALS
from scenarios.lookups import Lookups
from scenarios.streams import stream
from test_scenarios import TRIGGERS, for_seeds, in_turns, scenario

LOADED = [each for each in in_turns(3) if "early" not in each.values[2] and not each.values[0].startswith("sessions")]
"""Sessions of a history go on until the first records of the stream; what is fired early is not said."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("some", [range(1), pytest.param(range(1, 20), marks=pytest.mark.long)], ids=["one", "more"])
@pytest.mark.parametrize(("kind", "content", "trigger"), LOADED)
def test_rows_after_a_history_are_those_of_all_records(kind, content, trigger, some, monkeypatch):
    batches = 14 if content == PARTIALS else 8
    for_seeds(
        f"loading {kind} {content} {trigger}",
        some,
        monkeypatch,
        lambda rng: run(rng, scenario(rng, kind, content, TRIGGERS[trigger]), batches=batches),
    )


def run(rng, made, **options):
    """The first micro-batches of a random stream as its history; then the stream, from the watermark of there on."""
    batches, lookups = list(stream(rng, made.kind, **options)), Lookups(made)
    cut = rng.randrange(1, len(batches) - 2)
    times = [record[0] for records, *_ in batches[:cut] for record in records if record[0] is not None]
    until = max(times, default=made.kind.begin) // 1000 * 1000 + rng.choice([0, 1000, made.kind.step // 1000 * 1000])
    history = [record for records, *_ in batches for record in records]
    made.load(history, max(until, 0), rng.choice([1, 2]))
    for records, watermark, now in batches[cut:]:
        live = [record for record in records if record[0] is None or record[0] >= until]
        made.step(live, watermark, now, partitions=rng.choice([1, 2]))
        if rng.random() < 0.5:
            lookups.check(rng)
    made.drain()
