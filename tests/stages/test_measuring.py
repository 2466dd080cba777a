"""What the pages of a bucket take, against its records; and what is said of damaged ones."""

from collections import Counter, defaultdict
from functools import cache, partial

import pyarrow as pa
import pytest
from golden.every_kind import BEGIN, BRIEF, SCENARIOS, SECOND, Line, micro_batches

from slicing.content.codec import decode_text
from slicing.content.packing import unsealed
from slicing.engines.looking import Look
from slicing.explain.state_table import (
    BucketState,
    KeyState,
    StateTable,
    TriggerState,
    facts_of,
    largest_of,
    slices_of,
    trigger_state_of,
    triggers_of,
)
from slicing.stages.measuring import CountSlices, Measure
from slicing.state import bucket_cache
from slicing.state.format.header import Header, Result


def measured(pages, headers, measure=Measure):
    columns = [[7] * len(pages), list(pages), list(pages.values())]
    types = (pa.int32(), pa.string(), pa.string())
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, ["bucket", "page", "text"])
    (found,) = measure(headers)([batch.slice(0, 3), batch.slice(3)])
    return found.to_pylist()


@cache
def fed(name):
    """A bucket after some micro-batches, which tests only read."""
    line = Line(name)
    for each in micro_batches(SCENARIOS[name][0])[:12]:
        line.step(*each)
    return line


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", BRIEF)
def test_keys_pages_and_bytes_are_counted(name):
    line = fed(name)
    pages = line.store.pages
    (row,) = measured(pages, {7: line.store.text})
    assert row["pages"] == len(pages)
    assert row["bytes"] == sum(map(len, pages.values()))
    assert 1 <= row["keys"] <= 3
    assert row["damage"] is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BRIEF)
def test_the_largest_keys_are_those_of_most_rows(name, monkeypatch):
    """Rows, records and slices of each key are those of the blocks that the engine decodes to answer a lookup."""
    line, decoded, slices = fed(name), {}, defaultdict(set)
    page_of = {unsealed(text): page for page, text in line.store.pages.items()}
    lists = Header.from_text(line.store.text).lists
    list_of = {f"p{entry[0]}": each for each, entries in lists.items() for entry in entries}

    def decoding(shape, text):
        block = decode_text(shape, text)
        counts = Counter()
        part = list_of.get(page_of[text], "")
        of_one_window = part.startswith("totals") or "window " in part
        columns = (each.tolist() for each in (block.keys, block.index, block.records))
        for code, index, records in zip(*columns, strict=True):
            key = block.names["k0"][code].as_py()
            slices[repr(key)].add((part, 0 if of_one_window else index))
            counts[key, "rows"] += 1
            counts[key, "records"] += records
        decoded[text] = counts
        return block

    monkeypatch.setattr("slicing.state.pages.decode_text", decoding)
    bucket_cache._entries.clear()  # or open rows would not be read
    for _ in line.execution_plan.bucket(line.grace, line.fingerprint, line.store, line.emission).look(Look()):
        pass
    counted = sum(decoded.values(), Counter())
    pages = {page: text for page, text in line.store.pages.items() if unsealed(text) in decoded}
    (row,) = measured(pages, {7: line.store.text})
    found = {each["key"]: (each["rows"], each["records"]) for each in row["largest"]}
    assert row["damage"] is None
    assert decoded
    if name.startswith("counting, eager"):
        assert not found, "its pages hold records, whose columns are not known"
        return
    for key in {key for key, _ in counted}:
        assert found[repr(key)] == (counted[key, "rows"], counted[key, "records"])
    keys = {each["hash"]: each["key"] for each in row["largest"]}
    counted_slices = measured(pages, {7: line.store.text}, partial(CountSlices, keys={7: list(keys)}))
    assert {keys[each["hash"]]: each["slices"] for each in counted_slices} == {
        key: len(found) for key, found in slices.items()
    }
    sizes = [each["bytes"] for each in row["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < sum(sizes) <= row["bytes"]


@pytest.mark.parametrize("most_held", [1, 64])
def test_a_slice_with_rows_in_several_pages_is_counted_once(most_held, monkeypatch):
    """Three micro-batches bring records of one slice, and a fourth one a record of the next slice."""
    monkeypatch.setattr("slicing.stages.measuring.MOST_HELD", most_held)
    line = Line("tumbling, combined, on close")
    for second, keys in ((1, (1, 2)), (2, (1,)), (3, (1,)), (7, (1,))):
        line.step([[BEGIN + second * SECOND, key, 1, "a", SECOND] for key in keys], 0, 0)
    (row,) = measured(line.store.pages, {7: line.store.text})
    assert {each["key"]: (each["rows"], each["records"]) for each in row["largest"]} == {"1": (4, 4), "2": (1, 1)}
    keys = {each["hash"]: each["key"] for each in row["largest"]}
    found = measured(line.store.pages, {7: line.store.text}, partial(CountSlices, keys={7: list(keys)}))
    assert {keys[each["hash"]]: each["slices"] for each in found} == {"1": 2, "2": 1}
    pages = {page: text[:-9] for page, text in line.store.pages.items()}
    assert measured(pages, {7: line.store.text}, partial(CountSlices, keys={7: list(keys)})) == []


def test_damaged_pages_are_named_and_the_others_counted():
    line = Line("hopping, combined, on close")
    for each in micro_batches("hopping")[:20]:
        line.step(*each)
    pages = dict(sorted(line.store.pages.items()))
    first = next(iter(pages))
    pages[first] = pages[first][:-9]
    (row,) = measured(pages, {7: line.store.text})
    assert row["damage"].startswith(f"page `{first}`: ")
    assert (row["pages"], row["keys"]) == (len(pages), 3)


def listed(head):
    head.lists["a list of tomorrow"] = head.lists.pop(next(iter(head.lists)), [[0, 0, 0, 0, 0]])


def generation(head):
    head.generations = {}


@pytest.mark.parametrize("damage", [listed, generation])
def test_a_damaged_header_is_named_and_pages_are_counted(damage):
    line = Line("hopping, combined, on close")
    for each in micro_batches("hopping")[:20]:
        line.step(*each)
    head = Header.from_text(line.store.text)
    damage(head)
    (row,) = measured(line.store.pages, {7: head.to_text()})
    assert row["damage"].startswith("header: ")
    assert (row["pages"], row["keys"], row["largest"]) == (len(line.store.pages), 3, [])


def test_a_partition_without_pages_has_no_rows():
    assert measured({}, {}) == []


def test_a_header_is_described():
    line = Line("several, combined, on close")
    for each in micro_batches("several")[:20]:
        line.step(*each)
    head = Header.from_text(line.store.text)
    facts = facts_of(head)
    assert facts["windows"] == ("hopping('12 seconds', advance='4 seconds')", "tumbling('20 seconds')")
    assert facts["cut"] == "every 4 seconds"
    assert facts["keys"] == ("key bigint",)
    assert " of n: " in facts["results"][0]
    assert slices_of(head) > 2


def test_a_field_that_another_result_stores_is_told_by_its_columns():
    line = Line("several, combined, on close")
    line.step(*micro_batches("several")[0])
    head = Header.from_text(line.store.text)
    mean = Result(7, ["price"], "", ["s bigint", "n bigint"], "slices")
    head.results, head.generations = (
        [mean, Result(9, ["fee"], "2", ["m int", "n bigint of result 7"], "slices")],
        {1: [9]},
    )
    assert facts_of(head)["results"] == (
        "aggregate of fee of version 2: m int, n bigint stored with aggregate of price",
    )


@pytest.mark.parametrize("emission", ["early by ticks", "early by records"])
def test_the_state_of_a_trigger_is_counted_by_its_lists(emission):
    line = fed(f"hopping, combined, {emission}")
    (row,) = measured(line.store.pages, {7: line.store.text})
    head = Header.from_text(line.store.text)
    lists = {name.removeprefix("early "): each for name, each in head.lists.items() if name.startswith("early ")}
    assert lists
    assert {each["list"]: (each["pages"], each["bytes"]) for each in row["trigger"]} == {
        name: (len(entries), sum(len(line.store.pages[f"p{entry[0]}"]) for entry in entries))
        for name, entries in lists.items()
    }


def test_a_trigger_that_fires_windows_when_they_close_has_no_state():
    line = fed("hopping, combined, on close")
    (row,) = measured(line.store.pages, {7: line.store.text})
    assert row["trigger"] == []


def test_the_state_of_a_trigger_is_described():
    plain, own = (Header.from_text(fed("hopping, combined, on close").store.text) for _ in range(2))
    own.trigger = ["Nth", "seen bigint", "high double"]
    assert triggers_of([plain, own, own]) == ("Nth with seen bigint, high double",)
    lists = trigger_state_of([("state", 1, 1200), ("counts", 1, 100), ("state", 2, 34)])
    assert lists == (
        TriggerState("record counts by slice", 1, 100),
        TriggerState("fields of the trigger by window", 3, 1234),
    )
    table = StateTable("place", 0, None, (), trigger=triggers_of([own]), trigger_state=lists, formats=(7, 8))
    facts = [
        ("format", "7 and 8"),
        ("trigger", "Nth with seen bigint, high double"),
        ("trigger state", "record counts by slice: 1 pages, 100 bytes"),
        ("trigger state", "fields of the trigger by window: 3 pages, 1,234 bytes"),
    ]
    assert [fact for fact in table.facts if fact[0] in ("format", "trigger", "trigger state")] == facts
    for name, text in facts:
        assert f"{name:15}{text}" in str(table)
        assert f">{text}</td>" in table._repr_html_()


def test_buckets_are_shown_by_size():
    buckets = tuple(BucketState(at, 1, 2, 3, 100 * at) for at in range(12))
    keys = tuple(largest_of({at: KeyState(1, str(at), 1, 2, 10 * at) for at in range(12)}).values())
    table = StateTable("place", 5, 1_700_000_000_000_000, buckets, largest_keys=keys)
    assert [each.bytes for each in keys] == [10 * at for at in range(11, 1, -1)]
    assert "largest keys" in str(table)
    assert "largest keys" in table._repr_html_()
    assert table.skew == pytest.approx(11 * 12 / 66)
    assert [bucket.label for bucket in table.largest[:2]] == [11, 10]
    assert "and 2 smaller ones" in str(table)
    assert "2023-11-14T22:13:20" in str(table)
    assert StateTable("place", 0, None, ()).skew == 1.0
