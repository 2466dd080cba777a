"""Golden files: state as the code of one commit left it, and the micro-batches that were still to come.

`streams.json.xz` has for each scenario its micro-batches (records, watermark, time of the trigger), all raw, and
`format<n>.json.xz` the store of a bucket after some of them: header, pages, and how many micro-batches it has seen.
The tests open each store with the code as it is now, run the rest, and compare every row with the raw records.

Run it with the code of the commit that is to write the state::

    git worktree add ../old <commit>
    cd ../old && PYTHONPATH=$PWD:$PWD/tests python ../slicing/tests/golden/make.py
    git worktree remove --force ../old

Formats 7 and 8 were written by the commits that brought them, b9f7d09 the first; their tests had another model of
streams, and the script of then made the files. Files that are there are not written again: state of a format that has
landed stays as it is.
"""

import json
import lzma
import secrets
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario

from slicing.options import Options
from slicing.stages.support_of import support_of
from slicing.state import slice_groups
from slicing.state.format import header
from slicing.state.format.buckets import Buckets
from slicing.triggers import emission
from slicing.windows.families.even import Even as EvenFamily
from slicing.windows.window import Hopping

HERE = Path(__file__).parent

SCENARIOS = {
    "two layers": {"cases": ["sum", "parity"], "lateness": 9, "grace": 6000},
    "three layers": {"cases": ["highest", "most"], "slices": 30, "lateness": 9, "grace": 6000},
    "rows": {"cases": ["rows", "joined"]},
    "text keys": {"cases": ["sum", "highest", "rows"], "key": "string", "lateness": 4},
    "two slices an advance": {"cases": ["sum", "most"], "slicing": [25_000_000, 2_000_000, 1_000_000], "lateness": 4},
    "floats": {"cases": ["floats", "variance"], "slices": 16},
    "many at once": {"cases": ["sum", "most"], "slices": 36, "batches": 9, "cut_bytes": 1},
    "pages of their own": {"cases": ["sum", "most"], "slices": 17, "cut_bytes": 1, "lateness": 3},
    "recomputed": {"cases": ["most"], "tree": "recompute", "slices": 12},
    "corrected": {"cases": ["sum", "most"], "emission": ["on_close", {"corrections": True, "old": True}], "grace": 6000,
                  "lateness": 6},
    "updated": {"cases": ["sum", "most"], "emission": ["on_update", {}], "lateness": 3},
    "newest": {"cases": ["sum", "most"], "emission": ["on_update", {"latest_only": True}], "lateness": 3},
    "changed": {"cases": ["parity", "most"], "emission": ["on_change", {"drained": True}]},
    "ticks": {"cases": ["sum", "most"], "emission": ["early", {"every": "3 seconds"}], "lateness": 3},
    "counted": {"cases": ["sum", "most"], "emission": ["early", {"records": 7}], "lateness": 3},
    "eager": {"cases": ["rows", "most"], "eager": True, "slices": 12, "lateness": 3},
    "eager, newest": {"cases": ["sum"], "eager": True, "emission": ["on_update", {"latest_only": True}],
                      "slicing": [9_000_000, 2_000_000, 0], "lateness": 3},
}  # fmt: skip
"""By name; `slices` of a second in a window, `lateness` in seconds on average, `grace` in milliseconds."""


def slicing_of(scenario):
    """The windows of a scenario."""
    slices = scenario.get("slices", 20)
    return EvenFamily(*scenario.get("slicing", [slices * 1_000_000, 1_000_000, 0]))


def emission_of(scenario):
    """The emission of a scenario."""
    name, options = scenario.get("emission", ["on_close", {}])
    return getattr(emission, name)(**options)


def stream_of(scenario, tree=None):
    """The stream of a scenario, before its first micro-batch; all results may have another tree."""
    family = slicing_of(scenario)
    return Scenario(
        Even(Hopping(family.size, family.advance, family.offset)),
        emission_of(scenario),
        scenario.get("grace", 0) * 1000,
        RECORDS if scenario.get("eager") else PARTIALS,
        scenario["cases"],
        key=scenario.get("key", "bigint"),
        tree=tree or scenario.get("tree"),
    )


def micro_batches(scenario, seed):
    """Records in the order of arrival, which is a second for every second of event time, in micro-batches."""
    rng, family = np.random.default_rng(seed), slicing_of(scenario)
    seconds, number = family.size // 1_000_000 * 3, scenario.get("batches", 36)
    arrival = np.sort(rng.integers(0, seconds * 1000, 3 * seconds)) + 50_000
    behind = rng.exponential(scenario.get("lateness", 0.1) * 1000, len(arrival)).astype(np.int64)
    keys = rng.integers(0, 3, len(arrival)).tolist()
    names = [(f"key {key}" if scenario.get("key") == "string" else key) if key else None for key in keys]
    times, values = ((arrival - behind) * 1000).tolist(), rng.integers(-99, 99, len(arrival)).tolist()
    records = list(zip(times, names, values, strict=True))
    cuts = [0, *np.sort(rng.integers(0, len(records), number - 1)).tolist(), len(records)]
    found, watermark = [], 0
    for first, end in pairwise(cuts):
        now = int(arrival[max(0, end - 1)])
        found.append([records[first:end], watermark, now])
        watermark = max(watermark, max((time for time, _, _ in records[first:end]), default=0) // 1000 - 2000)
    return found


def fingerprint_of(stream):
    """What the code of the commit says that state depends on."""
    from slicing.drafts.call import Time
    from slicing.spark.stream import fingerprint

    columns = [f"value{i}" for i in range(len(stream.cases))]
    query = SimpleNamespace(
        window=stream.kind.window,
        shape=stream.shape,
        trees=stream.execution_plan.trees,
        columns=columns,
        arguments=[[i] for i in range(len(columns))],
        clock=Time.EVENT,
        support=support_of(stream.kind.window),
        options=Options(trigger=stream.trigger),
        remembers=None,
        labels=(),
        time="",  # these checkpoints do not say it
    )
    return fingerprint(query, Buckets(1))


def store_of(scenario, batches):
    """The store of a bucket that has seen two thirds of the micro-batches."""
    slice_groups.CUT_BYTES = scenario.get("cut_bytes", 16 << 10)
    numbers = count()
    secrets.token_hex = lambda size: f"{next(numbers):0{2 * size}x}"
    stream, seen = stream_of(scenario), len(batches) * 2 // 3
    stream.fingerprint = fingerprint_of(stream)
    for records, watermark, now in batches[:seen]:
        stream.emit(records, watermark, now)
    return {"seen": seen, "header": stream.store.text, "pages": stream.store.pages}


def load(name):
    """What a file holds."""
    return json.loads(lzma.decompress((HERE / f"{name}.json.xz").read_bytes()))


def save(name, content):
    """Write a file, but never again."""
    file = HERE / f"{name}.json.xz"
    if file.exists():
        raise SystemExit(f"{file} is there; a format that has landed is not written again")
    file.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME))


def main():
    if not (HERE / "streams.json.xz").exists():
        save("streams", {name: micro_batches(each, seed) for seed, (name, each) in enumerate(SCENARIOS.items())})
    streams = load("streams")
    save(f"format{header.FORMAT}", {name: store_of(each, streams[name]) for name, each in SCENARIOS.items()})


if __name__ == "__main__":
    main()
