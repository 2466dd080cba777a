"""Every emission on random streams against brute force; a new bucket at every step, so each step is a restart."""

import numpy as np
import pytest
from oracle import CASES, EmittingStream, cases

from slicing import blocks, pages, recent, stripes
from slicing.emission import early, on_change, on_close, on_update
from slicing.slices import Slicing

EXACT = cases("sum", "rows", "highest", "most", "joined")
CHANGING = cases("most", "parity")
MODES = {
    "on_update()": on_update(),
    "on_update(latest_only=True)": on_update(latest_only=True),
    "on_close(corrections=True)": on_close(corrections=True),
    "on_close(corrections=True, old=True)": on_close(corrections=True, old=True),
    "on_close(corrections=True, discarding=True)": on_close(corrections=True, discarding=True),
    "on_change()": on_change(),
    "on_change(drained=True)": on_change(drained=True),
    "early(every='3 seconds')": early(every="3 seconds"),
    "early(records=3)": early(records=3),
}


def random_slicing(rng, seed):
    size = int(rng.integers(1, 40))
    kinds = (
        lambda: int(rng.integers(1, 50)),
        lambda: int(rng.integers(1, 5)),
        lambda: int(rng.choice([d for d in range(1, size + 1) if size % d == 0])),
    )
    return Slicing(size * 1000, kinds[seed % 3]() * 1000, int(rng.integers(-100, 100)) * 1000)


def random_records(rng):
    """Records in order of arrival: disorder, records late by much, duplicates, gaps longer than a window."""
    count, keys = int(rng.integers(1, 120)), int(rng.integers(1, 5))
    arrival = np.sort(rng.integers(0, rng.choice([50, 200, 1000]), count)) + int(rng.choice([0, 10**4]))
    lateness = rng.exponential(rng.choice([1e-9, 3, 30]), count).astype(np.int64)
    times = ((arrival - lateness) * 1000).tolist()
    names = [key or None for key in rng.integers(0, keys, count).tolist()]
    records = list(zip(times, names, rng.integers(-100, 100, count).tolist(), strict=True))
    return [each for record in records for each in [record] * (1 + (rng.random() < 0.1))]


def chosen_cases(mode, seed):
    if mode.startswith("on_change"):
        return CHANGING if seed % 2 else cases("highest", "rows") if seed % 3 else cases("parity")
    return EXACT if seed % 3 == 0 else cases("sum", "most", "floats", "variance")


def run_random_stream(mode, seed, monkeypatch, eager=False):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(stripes, "CUT_BYTES", int(rng.choice([1, 300, 16_000])))
    monkeypatch.setattr(pages, "FAN_IN", int(rng.choice([2, 3, 8])))
    monkeypatch.setattr(blocks, "PAGE_BYTES", int(rng.choice([300, 4 << 20])))
    monkeypatch.setattr(recent, "KEPT_BYTES", int(rng.choice([0, 3000, 1 << 30])))
    slicing = random_slicing(rng, seed)
    grace = int(rng.choice([2000, 7000, 30_500])) * 1000 if "corrections" in mode else int(rng.choice([0, 0, 7000]))
    stream = EmittingStream(slicing, chosen_cases(mode, seed), MODES[mode], grace=grace, eager=eager)
    records, delay, watermark, now = random_records(rng), int(rng.integers(0, 20)), 0, 0
    most = max(2, len(records) // 10)
    while records:
        count = int(rng.integers(0, most))
        batch, records = records[:count], records[count:]
        now += int(rng.integers(1, 2500))
        stream.step(batch, watermark, now)
        watermark = max([watermark, *(time // 1000 - delay for time, _, _ in batch)])
    stream.step([], watermark, now + 1)
    stream.drain()
    return stream


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(24))
def test_random_streams(mode, seed, monkeypatch):
    run_random_stream(mode, seed, monkeypatch)


@pytest.mark.parametrize("mode", ["on_close()", *MODES])
@pytest.mark.parametrize("seed", range(6))
def test_random_streams_of_the_eager_strategy(mode, seed, monkeypatch):
    monkeypatch.setitem(MODES, "on_close()", on_close())
    run_random_stream(mode, 100 + seed, monkeypatch, eager=True)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(200, 500))
def test_many_random_streams(mode, seed, monkeypatch):
    run_random_stream(mode, seed, monkeypatch)
