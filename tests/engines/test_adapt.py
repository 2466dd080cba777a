"""Queries that change on a live checkpoint: rows are those that the raw records tell, and nothing partial is whole."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest
from adapting import RESULTS, SECOND, Query, order, run
from golden import every_kind
from golden.every_kind import COMBINED, MIXED, SCENARIOS, SEEN, Line, results_of
from golden.make import load

import combinators as C
from slicing import (
    Aggregate,
    by_edges,
    counting,
    early,
    hopping,
    on_change,
    on_close,
    on_update,
    session,
    tumbling,
    unbounded,
)
from slicing.engines.looking import Look, Other
from slicing.errors import StateMismatch
from slicing.stages import flat
from slicing.stages.looking import LookUp
from slicing.state.format.changes import changes_of
from slicing.state.format.header import Header
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime

FIVE, TWENTY = hopping("5 seconds", "1 second"), hopping("20 seconds", "1 second")


def fed(query, store, records, watermark):
    """The rows of one micro-batch, in some order."""
    return sorted(query.step(store, records, watermark)[0], key=order)


def at(second, n=1, s="a", key=1):
    """A record."""
    return second * SECOND, key, n, s


def begun(query, batches=3):
    """A bucket that holds records of the seconds 10 to 12, one of each."""
    store = MemoryStore()
    for second in range(10, 10 + batches):
        query.step(store, [at(second)], max(0, (second - 2) * SECOND))
    return store


# Chains.


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_chains_of_changes_equal_the_records(seed):
    assert run(seed)["changes"] == 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2))
def test_chains_with_eager_results_equal_the_records(seed):
    run(seed, eager=True)
    run(seed, sliced=False)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "emission",
    [
        on_update(),
        on_update(latest_only=True),
        early(records=3),
        early(records=3, every="2 seconds", by="event"),
        early(records=5, per="key"),
        on_close(corrections=True, old=True),
    ],
    ids=str,
)
def test_every_row_of_every_emission_is_one_that_the_records_make(emission):
    grace = 4 * SECOND if "corrections" in str(emission) else 0
    assert run(3, emission=emission, grace=grace, batches=18)["rows"]
    assert run(4, eager=True, emission=emission, grace=grace, batches=18)["rows"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 170))
def test_more_chains(seed):
    run(seed)
    run(seed, eager=True)
    run(seed, sliced=False)


def test_a_chain_sees_what_it_is_for():
    seen = run(1)
    assert seen["rows"] > 100
    assert 0 < seen["nulls"] < seen["rows"] * 3


# What is emitted when.


def test_new_windows_begin_with_the_oldest_that_is_open():
    """::

    slices    8   9  10  11  12  13          the watermark is at 10
    5 s       ^ of 7 to 12 is the oldest that is open, so all records from second 7 on are there
    """
    old, new = Query([FIVE], ["rows"]), Query([FIVE, hopping("3 seconds", "1 second")], ["rows"])
    store = begun(old)
    rows = fed(new, store, [at(13)], 20 * SECOND)
    three = [(start // SECOND, found["rows"]) for start, end, _, found in rows if end - start == 3 * SECOND]
    assert three == [(8, 1), (9, 2), (10, 3), (11, 3), (12, 2), (13, 1)]


def test_windows_that_had_ended_are_not_emitted_anew():
    old = Query([TWENTY], ["rows"])
    store = begun(old)
    rows = fed(Query([TWENTY, tumbling("1 second")], ["rows"]), store, [], 14 * SECOND)
    assert [row[:2] for row in rows if row[1] - row[0] == SECOND] == [
        (10 * SECOND, 11 * SECOND),
        (11 * SECOND, 12 * SECOND),
        (12 * SECOND, 13 * SECOND),
    ]


def test_records_count_once_in_the_micro_batch_that_adds_windows():
    """The record of second 11 fires with an added window that closes there, and waits in those of twenty seconds."""
    each_third, store = early(records=3, per="window"), MemoryStore()
    assert fed(Query([TWENTY], ["rows"], each_third), store, [at(10)], 8 * SECOND) == []
    new = Query([TWENTY, tumbling("1 second")], ["rows"], each_third)
    rows = fed(new, store, [at(11)], 12 * SECOND)
    assert {row[1] // SECOND for row in rows} == {11, 12}, "windows that close"
    later = fed(new, store, [at(12)], 12 * SECOND)
    assert len(later) == 18, "windows of the seconds 10 to 12"
    assert {row[3]["rows"] for row in later} == {3}


def test_a_new_result_is_null_until_a_window_begins_with_it():
    old, new = Query([FIVE], ["rows"]), Query([FIVE], ["rows", "total"])
    store = begun(old)
    rows = fed(new, store, [at(12, n=7), at(13, n=5), at(14, n=6)], 30 * SECOND)
    assert {row[0] // SECOND: row[3]["total"] for row in rows} == {
        **dict.fromkeys(range(6, 13)),
        13: 11,
        14: 6,
    }
    assert all(row[3]["rows"] is not None for row in rows)


def looked_up(query, store, family=None, **asked):
    """The windows that a lookup finds, by second and results; of another family if it is given."""
    shape = query.shape if family is None else query.shape.over(family)
    more = (query.execution_plan, query.fingerprint, query.emission, query.grace, shape, False, True, None)
    tables = LookUp(*more, Look(**asked), {}).rows(query.bucket(store))
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted((row[flat.START] // SECOND, [row[f"r{at}"] for at in range(len(query.names))]) for row in rows)


def test_a_lookup_shows_nothing_partial_as_whole():
    old, new = Query([FIVE], ["rows"]), Query([FIVE], ["rows", "total"])
    store = begun(old)
    new.step(store, [at(13, n=5)], 0)
    found = dict(looked_up(new, store))
    assert found[12] == [2, None]
    assert found[13] == [1, 5]


def test_a_lookup_of_other_windows_is_over_the_slices_of_the_checkpoint():
    old, new = Query([TWENTY, tumbling("1 second")], ["rows"]), Query([TWENTY], ["rows"])
    store = begun(old)
    new.step(store, [at(45)], 0)
    forty = tumbling("40 seconds").family.over(new.family.families[0].cut)
    assert looked_up(new, store, forty, other=Other((forty,)), incomplete=True) == [(0, [3]), (40, [1])]


def test_windows_that_ended_in_the_history_of_a_warm_start_are_not_emitted_when_they_are_added():
    old, new = Query([TWENTY], ["rows"]), Query([TWENTY, tumbling("1 second")], ["rows"])
    store = MemoryStore()
    shipped = old.shipped([at(1), at(7)])
    old.bucket(store).load(shipped, MicroBatchTime(10 * SECOND))
    rows = fed(new, store, [at(12)], 40 * SECOND)
    assert [row[0] // SECOND for row in rows if row[1] - row[0] == SECOND] == [12]


def test_what_another_result_has_stored_is_known_at_once():
    """A count and a sum are fields of a mean."""
    old, new = Query([FIVE], ["mean"]), Query([FIVE], ["count", "total"])
    rows = fed(new, begun(old), [], 30 * SECOND)
    assert {row[0] // SECOND: (row[3]["count"], row[3]["total"]) for row in rows}[8] == (3, 3)


def test_moments_that_get_more_fields_keep_those_that_they_had(monkeypatch):
    kurtosis = C.kurtosis("n")
    monkeypatch.setitem(RESULTS, "kurtosis", (kurtosis, lambda records: None))
    old, new = Query([FIVE], ["variance"]), Query([FIVE], ["variance", "kurtosis"])
    rows = fed(new, begun(old), [at(12, n=9)], 30 * SECOND)
    found = {row[0] // SECOND: row[3] for row in rows}
    assert found[8]["variance"] == pytest.approx(16)
    assert found[8]["kurtosis"] is None


def test_changes_of_results_are_compared_as_they_are_shown():
    """A result that is null is no change, whatever is known of it."""
    old = Query([tumbling("1 second")], ["rows"], on_change())
    new = Query([tumbling("1 second")], ["rows", "total"], on_change())
    store = begun(old)
    rows = fed(new, store, [at(12.5, n=100), at(13, n=3), at(14, n=3)], 30 * SECOND)
    assert [(row[0] // SECOND, row[3]["rows"], row[3]["total"]) for row in rows] == [
        (10, 1, None),
        (12, 2, None),
        (13, 1, 3),
    ]


def test_the_first_window_with_an_added_result_differs_though_it_holds_the_same_records():
    """Records of another key decide that it begins at 13; this key has one record, in the windows before it, too."""
    old, new = (Query([FIVE], names, on_change()) for names in (["rows"], ["rows", "total"]))
    store = begun(old)
    new.step(store, [at(14, n=7, key=2)], 8 * SECOND)
    rows = [(row[0] // SECOND, row[3]["total"]) for row in fed(new, store, [], 30 * SECOND) if row[2] == 2]
    assert rows == [(10, None), (13, 7)]


def test_the_fields_of_a_result_that_was_removed_leave_with_its_pages():
    old, new = Query([FIVE], ["rows", "squares", "most"]), Query([FIVE], ["rows"])
    store = begun(old, 12)
    for second in range(22, 60):
        new.step(store, [at(second)], (second - 2) * SECOND)
    new = Query([FIVE], ["rows", "least"])
    new.step(store, [at(60)], 58 * SECOND)
    head = Header.from_text(store.text)
    assert sorted(head.generations) == [1, 2]
    assert [result.version for result in head.results] == ["combinators.count", "combinators.min"]


def test_pages_of_windows_that_were_removed_leave():
    for names in (["joined"], ["rows", "joined"], ["rows", "squares"]):
        store = begun(Query([FIVE, TWENTY], names))
        Query([TWENTY], names).step(store, [at(13)], 11 * SECOND)
        assert all(name.startswith("1 ") for name in Header.from_text(store.text).lists)


def test_the_order_of_results_and_windows_is_free():
    """Without `.adapt`, as nothing differs but the order."""
    old = Query([FIVE, TWENTY], ["rows", "squares", "most"], adapt="refuse")
    new = Query([TWENTY, FIVE], ["most", "rows", "squares"], adapt="refuse")
    store, other = begun(old), begun(old)
    wanted, found = (fed(query, held, [at(13)], 40 * SECOND) for query, held in ((old, store), (new, other)))
    assert [(*row[:3], sorted(row[3].items())) for row in found] == [
        (*row[:3], sorted(row[3].items())) for row in wanted
    ]
    assert not changes_of([Header.from_text(store.text)], new.fingerprint)


def test_results_may_come_back():
    """What was removed meanwhile is new."""
    queries = [Query([FIVE], names) for names in (["rows", "least"], ["rows"], ["rows", "least"])]
    store = begun(queries[0])
    fed(queries[1], store, [at(13)], 11 * SECOND)
    rows = fed(queries[2], store, [at(14), at(15)], 40 * SECOND)
    assert {row[0] // SECOND for row in rows if row[3]["least"] is not None} == {14, 15}


def test_a_crash_leaves_the_state_as_it_was():
    """Nothing is written before the micro-batch has come to its end."""
    old, new = Query([FIVE], ["rows", "squares"]), Query([TWENTY], ["rows", "most"])
    store = begun(old)
    before = deepcopy(vars(store))
    bucket = new.bucket(store)
    bucket.accept([])
    assert vars(store) == before
    assert fed(old, store, [at(13)], 40 * SECOND) == fed(old, begun(old), [at(13)], 40 * SECOND)


# What is refused.


def refusal(old, new):
    """The message without `.adapt`, and the changes that are not allowed."""
    store = begun(old)
    found = changes_of([Header.from_text(store.text)], new.fingerprint)
    new.fingerprint = replace(new.fingerprint, adapt="allow")
    with pytest.raises(StateMismatch, match="Change the query back, or start with a new checkpoint: ") as raised:
        new.bucket(store)
    refused = [change for change in found if not change.allowed]
    assert refused
    assert not found.allowed
    assert all(str(change).removesuffix(".") in str(raised.value) for change in found)
    return [(change.what, change.effect) for change in refused]


def test_without_adapt_all_changes_are_listed():
    old, new = Query([FIVE], ["rows"]), Query([TWENTY], ["rows", "total"], adapt="refuse")
    with pytest.raises(StateMismatch) as raised:
        new.bucket(begun(old))
    assert str(raised.value) == (
        'Add `.adapt("allow")` to continue, change the query back, or start with a new checkpoint: it was written by '
        "another query. Different: hopping('20 seconds', advance='1 second') is new: emitted from the first window on "
        "that holds all its records; hopping('5 seconds', advance='1 second') is gone: no longer emitted, also those "
        "that are open; "
        "total (sum or mean of n) is new: null in windows that began before the change."
    )


@pytest.mark.parametrize("starts", [[0, 4, 9], [*range(0, 2000, 2)]])
def test_edges_that_read_alike_are_compared_by_their_instants(starts):
    """Their texts are the same, like those of long lists, which are stored as a digest."""
    old, new = (by_edges(edges, [at + 1 for at in edges]) for edges in (starts, [*starts[:-1], starts[-1] + 1]))
    with pytest.raises(StateMismatch, match=r"by_edges\(.*\) is (new|gone): "):
        Query([new], ["rows"], adapt="refuse").bucket(begun(Query([old], ["rows"])))


def test_finer_edges_are_refused():
    ((what, effect),) = refusal(Query([tumbling("4 seconds")], ["rows"]), Query([tumbling("2 seconds")], ["rows"]))
    assert what == "windows added"
    assert "edges inside stored slices" in effect
    assert "new checkpoint" in effect


def test_finer_edges_than_those_of_the_query_before_begin_after_it():
    """The cut stays: what a coarser query ships has no finer edges meanwhile."""
    fine, coarse = Query([tumbling("1 second")], ["rows"]), Query([tumbling("4 seconds")], ["rows"])
    store = begun(fine)
    fed(coarse, store, [at(13), at(14.5)], 12 * SECOND)
    assert Header.from_text(store.text).shipped == ["cut", [["every", 4_000_000, 0]]]
    rows = fed(fine, store, [at(15), at(16), at(17)], 40 * SECOND)
    assert [(row[0] // SECOND, row[3]["rows"]) for row in rows] == [(16, 1), (17, 1)]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"keys": ["key string"]}, "keys"),
        ({"buckets": "2 over 2 shuffle partitions"}, "buckets"),
    ],
)
def test_keys_and_buckets_are_refused(change, what):
    old, new = Query([FIVE], ["rows"]), Query([FIVE], ["rows"])
    new.fingerprint = replace(new.fingerprint, identity={**new.fingerprint.identity, **change})
    ((found, effect),) = refusal(old, new)
    assert found == what
    assert effect.startswith("refused: ")


@pytest.mark.parametrize(("name", "other"), [("time", "clock"), ("time column", "at")])
def test_another_time_is_refused(name, other):
    old, new = Query([FIVE], ["rows"]), Query([FIVE], ["rows"])
    old.fingerprint = replace(old.fingerprint, layout={**old.fingerprint.layout, "time column": "ts"})
    new.fingerprint = replace(new.fingerprint, layout={**old.fingerprint.layout, name: other})
    ((found, effect),) = refusal(old, new)
    assert found == name
    assert "slices are cut by it" in effect


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (hopping("3 seconds", "4 seconds", gaps=True), tumbling("4 seconds"), "gaps, whose records were not kept"),
        (by_edges([0, 50 * SECOND], [20 * SECOND, 90 * SECOND]), tumbling("20 seconds"), "edges inside stored slices"),
    ],
)
def test_windows_whose_records_were_not_kept_are_refused(old, new, reason):
    assert reason in refusal(Query([old], ["rows"]), Query([new], ["rows"]))[0][1]


def test_what_has_no_slices_is_refused_where_others_have():
    for names in (["joined"], ["rows"]), (["rows", "joined"], ["joined"]), (["joined"], ["rows", "joined"]):
        old, new = (Query([FIVE], each) for each in names)
        assert ("content", "refused: what is kept of records would be missing in windows that are open. "
                "Start with a new checkpoint.") in refusal(old, new)  # fmt: skip


def test_results_that_cannot_be_told_apart_are_refused(monkeypatch):
    """Both are of the same columns, fields and version."""
    monkeypatch.setitem(RESULTS, "twin", (RESULTS["squares"][0], len))
    ((what, effect),) = refusal(Query([FIVE], ["squares", "twin"]), Query([FIVE], ["twin"]))
    assert what == "result removed"
    assert "cannot be told which" in effect


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (([session("4 seconds")], ["rows"]), ([session("5 seconds")], ["rows"])),
        (([unbounded()], ["rows"]), ([unbounded()], ["rows", "most"])),
    ],
)
def test_kinds_that_cannot_change_say_why(old, new):
    emission = on_update()
    store = begun(Query(*old, emission))
    with pytest.raises(StateMismatch) as raised:
        Query(*new, emission).bucket(store)
    assert "refused: " in str(raised.value)


def test_a_total_may_be_removed():
    store = begun(Query([unbounded()], ["rows", "squares", "most"], on_update()))
    rows = fed(Query([unbounded()], ["most", "rows"], on_update()), store, [at(13, s="b")], 14 * SECOND)
    assert [row[3] for row in rows] == [{"most": "b", "rows": 4}]


@pytest.mark.parametrize(("count", "step"), [(4, 4), (6, 2)])
def test_results_of_count_windows_change_places_and_leave(count, step):
    """Another order is no difference; a result that has gone does not come back."""
    store, window = MemoryStore(), counting(count, step)

    def filled(names, seconds, **options):
        return fed(Query([window], names, **options), store, [at(second, n=second) for second in seconds], 0)

    filled(["rows", "total", "most"], range(1, count))
    (row,) = filled(["most", "total", "rows"], [count], adapt="refuse")
    assert row[3] == {"most": "a", "total": sum(range(1, count + 1)), "rows": count}
    (row,) = filled(["total"], range(count + 1, count + step + 1))
    assert row[3] == {"total": sum(range(step + 1, count + step + 1))}
    with pytest.raises(StateMismatch, match="refused: with which record of a key a change began is not stored"):
        filled(["total", "rows"], [])


def test_no_result_of_count_windows_leaves_if_records_are_kept_for_them():
    store = begun(Query([counting(4)], ["rows", "joined"]))
    for names, what in ((["joined"], "result removed"), (["joined", "rows"], "results reordered")):
        query = Query([counting(4)], names)
        change = changes_of([Header.from_text(store.text)], query.fingerprint)[-1]
        assert (change.what, change.allowed) == (what, False)
        with pytest.raises(StateMismatch, match="refused: records are kept with the columns of all results"):
            query.bucket(store)
    assert (change.stored, change.wanted) == ("rows, joined", "joined, rows")


# The code of functions.


def with_codes(names, *codes, **options):
    """A query whose results have functions with these digests."""
    query = Query([FIVE], names, **options)
    query.fingerprint = replace(query.fingerprint, codes=codes)
    return query


@pytest.mark.parametrize("names", [["rows", "squares"], ["mean", "count", "squares"]])
def test_other_code_is_listed_and_logged_once_and_refuses_nothing(names, caplog):
    codes = [""] * (len(names) - 1)
    store = begun(with_codes(names, *codes, "3.12 aa"))
    assert Header.from_text(store.text).current[-1].code == "3.12 aa"
    new = with_codes(names, *codes, "3.12 bb", adapt="refuse")
    (change,) = changes_of([Header.from_text(store.text)], _stored(new))
    assert (change.what, change.stored, change.wanted) == ("function changed", "3.12 aa", "squares: 3.12 bb")
    assert change.allowed
    for second in (13, 14):
        fed(new, store, [at(second)], 11 * SECOND)
    assert len([each for each in caplog.records if "function changed" in each.message]) == 1
    assert Header.from_text(store.text).current[-1].code == "3.12 bb"
    assert not changes_of([Header.from_text(store.text)], _stored(new))


def _stored(query):
    """The fingerprint of what is stored, which may be groups of fields."""
    grouped = getattr(query.execution_plan, "grouped", None)
    return grouped.fingerprint(query.fingerprint) if grouped else query.fingerprint


def test_code_of_another_version_of_python_and_of_no_version_is_not_compared(caplog):
    store = begun(Query([FIVE], ["squares"]))
    for code in ("3.12 aa", "3.13 bb"):
        fed(with_codes(["squares"], code, adapt="refuse"), store, [at(13)], 11 * SECOND)
        assert Header.from_text(store.text).current[0].code == code
    assert not caplog.records


def test_code_is_kept_while_other_results_come_and_go():
    store = begun(with_codes(["squares"], "3.12 aa"))
    fed(with_codes(["rows", "squares"], "", "3.12 aa"), store, [at(13)], 11 * SECOND)
    assert [each.code for each in Header.from_text(store.text).current] == ["", "3.12 aa"]


def test_functions_of_the_same_columns_that_change_places_keep_their_partials(monkeypatch, caplog):
    """Only their code tells them apart. The query may go on without `adapt`, as after any other order of results."""
    cubes = Aggregate(lambda: 0, lambda acc, n: acc + n**3, lambda a, b: a + b, lambda ab, a: ab - a, nulls=True)
    monkeypatch.setitem(RESULTS, "cubes", (cubes.on("n"), lambda records: sum(n**3 for _, _, n, _ in records)))
    store = MemoryStore()
    first = with_codes(["squares", "cubes"], "3.12 aa", "3.12 bb")
    fed(first, store, [at(10, 2)], 9 * SECOND)
    for names, codes, second in (
        (["cubes", "squares"], ["3.12 bb", "3.12 aa"], 11),
        (["squares", "cubes"], ["3.12 aa", "3.12 bb"], 12),
        (["cubes", "squares"], ["3.12 cc", "3.12 aa"], 13),
    ):
        query = with_codes(names, *codes, adapt="refuse")
        assert not [each for each in changes_of([Header.from_text(store.text)], query.fingerprint) if not each.allowed]
        rows = fed(query, store, [at(second, 2)], second * SECOND)
        count = second - 10
        assert [row[3] for row in rows if row[1] == second * SECOND] == [{"squares": 4 * count, "cubes": 8 * count}]
    assert len([each for each in caplog.records if "function changed" in each.message]) == 1


def test_functions_of_the_same_columns_come_and_go_if_their_code_is_known(monkeypatch):
    cubes = Aggregate(lambda: 0, lambda acc, n: acc + n**3, lambda a, b: a + b, lambda ab, a: ab - a, nulls=True)
    monkeypatch.setitem(RESULTS, "cubes", (cubes.on("n"), lambda records: sum(n**3 for _, _, n, _ in records)))
    store = MemoryStore()
    fed(with_codes(["squares"], "3.12 aa"), store, [at(10, 2)], 9 * SECOND)
    both = with_codes(["cubes", "squares"], "3.12 bb", "3.12 aa")
    rows = fed(both, store, [at(11, 2)], 11 * SECOND)
    assert [row[3] for row in rows if row[1] == 11 * SECOND] == [{"cubes": None, "squares": 4}]
    fed(both, store, [at(second, 2) for second in range(12, 20)], 12 * SECOND)
    rows = fed(with_codes(["cubes"], "3.12 bb"), store, [], 20 * SECOND)
    assert [row[3] for row in rows if row[1] == 20 * SECOND] == [{"cubes": 40}]
    with pytest.raises(StateMismatch, match="it cannot be told which of them is stored"):
        with_codes(["squares", "cubes"], "3.12 cc", "3.12 dd").bucket(store)


# Tables, and checkpoints of format 7.


@pytest.mark.parametrize("size", ["5 seconds", "20 seconds"])
def test_windows_that_hold_their_other_end_are_refused(size):
    new = Query([hopping(size, "1 second", closed="right")], ["rows"])
    found = changes_of([Header.from_text(begun(Query([FIVE], ["rows"])).text)], new.fingerprint)
    assert not found.allowed
    assert "`closed` decides in which slices records at edges are" in repr(found)


def test_changes_print_as_a_table():
    new = Query([tumbling("20 seconds")], ["rows", "least"])
    found = changes_of([Header.from_text(begun(Query([FIVE], ["rows", "total"])).text)] * 2, new.fingerprint)
    assert [change.what for change in found] == ["windows added", "windows removed", "result added", "result removed"]
    assert found.allowed
    lines = repr(found).splitlines()
    assert lines[0].split() == ["what", "stored", "wanted", "effect", "allowed"]
    assert lines[2].startswith("windows added")
    assert "tumbling('20 seconds')" in lines[2]
    assert lines[2].endswith("yes")
    assert "No differences" in repr(changes_of([], new.fingerprint))


STORED = load("every7")
OF_SLICES = [
    name
    for name, (windows, results, emission) in SCENARIOS.items()
    if windows in ("hopping", "tumbling", "few slices", "several", "cumulating", "in a zone")
    and results in (COMBINED, MIXED)
    and emission != "on change"
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OF_SLICES)
def test_checkpoints_of_format_7_go_on_without_a_result(name, monkeypatch):
    """The results that stay are those that the writer gave, row by row; rows of changes depend on all results."""
    windows, results, _ = SCENARIOS[name]
    names = list(results_of(results))
    kept = {each: bound for each, bound in results_of(results).items() if each != "most"}
    monkeypatch.setattr(every_kind, "results_of", lambda _: kept)
    stored, place = STORED["scenarios"][name], names.index("most")
    line = Line(name, stored["header"], stored["pages"])
    line.fingerprint = replace(line.fingerprint, adapt="allow")
    for batch, (rows, *late) in zip(STORED["streams"][windows][SEEN:], stored["rest"], strict=True):
        found, *found_late = line.step(*batch)
        assert sorted(_first(row, len(kept)) for row in found) == sorted(_first(row, len(kept), place) for row in rows)
        assert found_late == late
    assert len(Header.from_text(line.store.text).current) == len(kept)


def _first(row, count, left_out=None):
    """Key, start, end, family and results of a row that is a text, without one of the results."""
    values = json.loads(row)
    if left_out is not None:
        del values[4 + left_out]
    return json.dumps(values[: 4 + count])
