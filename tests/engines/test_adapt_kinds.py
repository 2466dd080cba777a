"""What changes on a live checkpoint of each kind of windows, and of those that format 7 has written."""

import json
from dataclasses import replace

import pytest
from golden import every_kind
from golden.every_kind import BEGIN, COMBINED, SCENARIOS, SECOND, SHARED, WINDOWS, Line
from golden.make import load

from slicing.stages import flat
from slicing.stages.output import flat_windows
from slicing.stages.support_of import support_of
from slicing.state.format.changes import ADDED, REMOVED, changes_of
from slicing.state.format.header import Header
from slicing.triggers.trigger import KINDS, MicroBatchTime

MERGED = KINDS.index("merged")
CHANGING = [
    name
    for name, (windows, results, emission) in SCENARIOS.items()
    if results in (COMBINED, SHARED)
    and emission != "on change"
    and not WINDOWS[windows][0].wide
    and not {ADDED, REMOVED} & set(support_of(WINDOWS[windows][0]).fixed(every_kind.EMISSIONS[emission], ()))
]

FEW = [each for each in CHANGING if each.startswith(("sessions", "sliding")) and each.endswith(("close", "update"))]


class Query(Line):
    """The bucket of a scenario with some of its results, in some order, on the store of another one."""

    def __init__(self, name, chosen, store=None):
        whole = every_kind.results_of
        every_kind.results_of = lambda of: {each: whole(of)[each] for each in chosen}
        try:
            super().__init__(name)
        finally:
            every_kind.results_of = whole
        self.chosen, self.store = chosen, store or self.store
        fixed = support_of(self.window).fixed(self.emission, ())
        self.fingerprint = replace(self.fingerprint, adapt="allow", fixed=fixed)

    def rows(self, records, watermark, clock):
        """The rows of a micro-batch: what tells each from others -> results by name."""
        bucket, found = self.bucket(), {}
        bucket.accept(self.shipped(records))
        for frame in bucket.close(MicroBatchTime(watermark * 1000, clock)):
            shape = replace(self.execution_plan.shape, since=bucket.coverage.results)
            for row in flat_windows(
                shape, frame, self.emission, bucket.head.revision, self.execution_plan.wide
            ).to_pylist():
                of = {prefix: [row.pop(f"{prefix}{at}", None) for at in range(len(self.chosen))] for prefix in "ro"}
                place = json.dumps(row, sort_keys=True)
                assert place not in found
                found[place] = row[flat.START], row.get(flat.KIND), of["r"], of["o"]
        self.bucket().check()
        return found


@pytest.mark.parametrize("name", ["sessions, combined, on update", "sliding, combined, on close"])
def test_other_windows_that_records_decide_are_refused(name):
    query = Query(name, ["total"])
    query.rows([[BEGIN, 1, 1, "a", SECOND]], 0, 0)
    other = Query("hopping, combined, on close", ["total"])
    fixed = support_of(query.window).fixed(query.emission, ())
    found = changes_of([Header.from_text(query.store.text)], replace(other.fingerprint, fixed=fixed))
    assert not found.allowed
    assert any("decided" in change.effect for change in found)


# Checkpoints that format 7 has written.

STORED = load("every7")
OLDER = [name for name in STORED["scenarios"] if name in CHANGING and SCENARIOS[name][1] == COMBINED]


@pytest.mark.parametrize("name", [each for each in OLDER if each in FEW])
def test_checkpoints_of_format_7_are_adapted(name):
    adapt_older(name)


@pytest.mark.long
@pytest.mark.parametrize("name", OLDER)
def test_all_checkpoints_of_format_7_are_adapted(name):
    adapt_older(name)


def adapt_older(name):
    """One result goes, and comes back: it is null, or that of a stream that has kept it."""
    windows, _, _ = SCENARIOS[name]
    stored, every = STORED["scenarios"][name], ["total", "most", "squares"]
    reference, query = Query(name, every), Query(name, ["squares", "total"])
    for each in (reference, query):
        each.store.text, each.store.pages = stored["header"], dict(stored["pages"])
    assert [change.what for change in changes_of([Header.from_text(stored["header"])], query.fingerprint)] == [
        "result removed"
    ]
    for number, batch in enumerate(STORED["streams"][windows][every_kind.SEEN :]):
        if number == 4:
            query = Query(name, ["most", "total"], query.store)
        wanted, found = (each.rows(*batch) for each in (reference, query))
        assert found.keys() == wanted.keys()
        for place, (_, kind, ours, _) in found.items():
            theirs = dict(zip(every, wanted[place][2], strict=True))
            for each, value in zip(query.chosen, ours, strict=True):
                assert value == theirs[each] or (each == "most" and value is None) or kind == MERGED
