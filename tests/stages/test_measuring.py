"""What the pages of a bucket take, against its records; and what is said of damaged ones."""

import pyarrow as pa
import pytest
from golden.every_kind import BRIEF, SCENARIOS, Line, micro_batches

from slicing.explain.state_table import BucketState, StateTable, facts_of, slices_of
from slicing.stages.measuring import Measure
from slicing.state.format.header import Header, Result


def measured(pages, keys):
    columns = [[7] * len(pages), list(pages), list(pages.values())]
    types = (pa.int32(), pa.string(), pa.string())
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, ["bucket", "page", "text"])
    (found,) = Measure(keys)([batch.slice(0, 3), batch.slice(3)])
    return found.to_pylist()


@pytest.mark.parametrize("name", BRIEF)
def test_keys_pages_and_bytes_are_counted(name):
    line = Line(name)
    for each in micro_batches(SCENARIOS[name][0])[:20]:
        line.step(*each)
    pages = line.store.pages
    (row,) = measured(pages, {7: ("bigint",)})
    assert row["pages"] == len(pages)
    assert row["bytes"] == sum(map(len, pages.values()))
    assert 1 <= row["keys"] <= 3
    assert row["damage"] is None


def test_damaged_pages_are_named_and_the_others_counted():
    line = Line("hopping, combined, on close")
    for each in micro_batches("hopping")[:20]:
        line.step(*each)
    pages = dict(sorted(line.store.pages.items()))
    first = next(iter(pages))
    pages[first] = pages[first][:-9]
    (row,) = measured(pages, {7: ("bigint",)})
    assert row["damage"].startswith(f"page `{first}`: ")
    assert (row["pages"], row["keys"]) == (len(pages), 3)


def test_a_partition_without_pages_has_no_rows():
    assert measured({}, {}) == []


def test_a_header_is_described():
    line = Line("several, combined, on close")
    for each in micro_batches("several")[:20]:
        line.step(*each)
    head = Header.from_text(line.store.text)
    facts = facts_of(head)
    assert facts["windows"] == ("12 seconds every 4 seconds", "20 seconds every 20 seconds")
    assert facts["cut"] == "every 4 seconds"
    assert facts["keys"] == ("key bigint",)
    assert facts["results"][0].startswith("of n: ")
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
    assert facts_of(head)["results"] == ("of fee: m int, n bigint stored with the result of price, version 2",)


def test_buckets_are_shown_by_size():
    buckets = tuple(BucketState(at, 1, 2, 3, 100 * at) for at in range(12))
    table = StateTable("place", 5, 1_700_000_000_000_000, buckets)
    assert table.skew == pytest.approx(11 * 12 / 66)
    assert [bucket.label for bucket in table.largest[:2]] == [11, 10]
    assert "and 2 smaller ones" in str(table)
    assert "2023-11-14T22:13:20" in str(table)
    assert StateTable("place", 0, None, ()).skew == 1.0
