"""What Flink tests of cumulating windows on a stream, replayed here; and which cases of `vectors/` run where.

Slices of cumulating windows, and days with changes of the clock, are in test_families.
"""

import json
from pathlib import Path

import pytest
from oracle import Case
from scenarios.kinds.cumulating import Cumulating
from scenarios.scenario import Scenario
from test_counting_vectors import VECTORS as COUNTING
from test_early_vectors import CONTINUOUS
from test_families import CASES as SLICES
from test_session_vectors import CASES as SESSIONS
from test_sliding_vectors import CASES as SLIDING
from test_suppress_vectors import VECTORS as SUPPRESSED
from test_vectors import AGGREGATES, EMISSIONS, EXCEPTIONS, TRUTHS, VECTORS, batches

from slicing.assembly.choice import choose
from slicing.windows.families.family import RUNNING

HERE = Path(__file__).parents[1] / "vectors"
FILES = sorted((HERE / "cumulating").glob("*.json"))
CASES = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}


@pytest.mark.parametrize("name", sorted(CASES))
def test_flinks_cumulating_windows(name):
    case, found = CASES[name], []
    window, aggregate = case["window"], case["aggregate"]
    kind = Cumulating.of(window["size"], window["advance"], window.get("offset", 0))
    stream = Scenario(
        kind, EMISSIONS[case["emit"]], results=[Case(AGGREGATES[aggregate], TRUTHS[aggregate])], key="string"
    )
    assert [choose(kernel, stream.family) for kernel in stream.shape.kernels] == [RUNNING]
    for number, records, watermark in batches(case):
        for (_, key, _, start, end), ((_, value), _) in stream.step(records, watermark).items():
            row = {"event": number, "key": key, "start": start // 1000, "end": end // 1000}
            found.append(row | {"value": list(value) if isinstance(value, tuple) else value})
    assert sorted(found, key=str) == sorted(case["rows"], key=str)
    assert stream.seen["late"] == case["dropped"]
    assert stream.seen["late for some"] > 0, "a record that is late for some steps counts in the others"


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
