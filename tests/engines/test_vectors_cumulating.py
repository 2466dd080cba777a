"""What Flink tests of cumulating windows on a stream, replayed here; and which cases of `vectors/` run where.

Slices of cumulating windows, and days with changes of the clock, are in test_families.
"""

import json
from pathlib import Path

import pytest
from oracle import FINGERPRINT, Case, block_of, moment, results, shape_of
from test_counting_vectors import VECTORS as COUNTING
from test_early_vectors import CONTINUOUS
from test_families import CASES as SLICES
from test_families import family_of
from test_session_vectors import CASES as SESSIONS
from test_sliding_vectors import CASES as SLIDING
from test_suppress_vectors import VECTORS as SUPPRESSED
from test_vectors import AGGREGATES, EMISSIONS, EXCEPTIONS, VECTORS, batches

from slicing.assembly.choice import choose
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.state.store import MemoryStore
from slicing.windows.families.family import RUNNING

HERE = Path(__file__).parents[1] / "vectors"
FILES = sorted((HERE / "cumulating").glob("*.json"))
CASES = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}


def keys_of(case):
    return sorted({event["key"] for event in case["events"] if "key" in event})


def replay(case):
    """The rows of a case, as it names them, and how many records were refused by all windows and by some."""
    family, cases, store = family_of(case["window"]), [Case(AGGREGATES[case["aggregate"]], None)], MemoryStore()
    shape, keys = shape_of(family, cases), keys_of(case)
    trees = [choose(kernel, family) for kernel in shape.kernels]
    assert trees == [RUNNING]
    found, late = [], [0, 0]
    for number, records, watermark in batches(case):
        bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store, EMISSIONS[case["emit"]])
        made = [(time, keys.index(key), value) for time, key, value in records]
        refused = bucket.accept([block_of(shape, cases, made)] if made else [])
        late = [late[0] + refused.all, late[1] + refused.some]
        for (key, window), (_, value) in results(shape, list(bucket.close(moment(watermark)))).items():
            start, end = int(family.window_start(window)) // 1000, int(family.window_end(window)) // 1000
            row = {"event": number, "key": keys[key], "start": start, "end": end}
            found.append(row | {"value": list(value) if isinstance(value, tuple) else value})
        bucket.check()
    return found, late


@pytest.mark.parametrize("name", sorted(CASES))
def test_flinks_cumulating_windows(name):
    case = CASES[name]
    found, (dropped, some) = replay(case)
    assert sorted(found, key=str) == sorted(case["rows"], key=str)
    assert dropped == case["dropped"]
    assert some > 0, "a record that is late for some steps counts in the others"


def test_every_case_runs_somewhere_or_is_an_exception():
    """Folders of `vectors/`: it in test_vectors, `slices/` in test_families, each other one in the tests named so."""
    stored = {
        case["name"] for file in HERE.rglob("*.json") for case in json.loads(file.read_text(encoding="utf-8"))["cases"]
    }
    of_records = SESSIONS.keys() | SLIDING.keys() | COUNTING.keys() | SUPPRESSED.keys()
    assert stored == VECTORS.keys() | SLICES.keys() | CASES.keys() | of_records | CONTINUOUS
    assert not CASES.keys() & (VECTORS.keys() | SLICES.keys())
    assert {path.name for path in HERE.iterdir() if path.is_dir()} == {
        "slices",
        "cumulating",
        "sessions",
        "sliding",
        "counting",
        "evictors",
        "suppress",
        "triggers",
    }
    run = stored - EXCEPTIONS.keys()
    kinds = {"slices_cumulative", "slices_hopping", "slices_tumbling", "flink_slicing_cumulative", "flink_sliding"}
    assert all(any(name.startswith(kind) for name in run) for kind in kinds)
    assert {"slices_cumulative_daylight_saving", "flink_sliding_processing_time"} <= run
    assert len(stored - CONTINUOUS) == len(VECTORS.keys() | of_records) + len(CASES) + len(
        SLICES.keys() - VECTORS.keys()
    )
