"""Blocks: records become partials, blocks are folded and encoded, and what goes wrong is said with its place."""

import datetime as dt
import math
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from oracle import CASES, Case, assert_right, block_of, cases, hopping, records_of, results, shape_of

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernel import locating
from slicing.aggregates.kernels import kernel
from slicing.assembly.assembling import assemble
from slicing.assembly.results import Windows, show_window
from slicing.content import folding, sizes
from slicing.content.block import concat, empty, encode_keys, encode_sorted
from slicing.content.codec import decode, decode_text, encode, encode_text
from slicing.content.folding import fold, from_records, regroup
from slicing.engines.eager.bucket import all_windows
from slicing.errors import FunctionFailed, InvalidType

HOUR = hopping(1)  # tumbling: a slice is a window, so that `results` shows blocks too
ALL = cases(*CASES)
SHAPE = shape_of(HOUR, ALL)


def shown(shape, block):
    """The content of a block by (key, slice)."""
    windows = Windows(block.index, block.keys, block.names, block.records, block.partials, block.dictionaries)
    return results(shape, [windows])


def random_records(seed, count=300):
    rng = np.random.default_rng(seed)
    times = rng.integers(-20_000, 20_000, count).tolist()
    keys = [None if key == 0 else key for key in rng.integers(0, 7, count).tolist()]
    return list(zip(times, keys, rng.integers(-50, 50, count).tolist(), strict=True))


def truth(records):
    held = defaultdict(list)
    for time, key, value in records:
        held[key, time // 1000].append(value)
    return held


@pytest.mark.parametrize("seed", range(10))
def test_records_are_folded_encoded_and_folded_again(seed):
    records = random_records(seed)
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(records), 3)).tolist()
    parts = [records[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    folded = [block_of(SHAPE, ALL, part) for part in parts]
    for block in folded:
        block.check(SHAPE)
        again = decode(SHAPE, encode(SHAPE, block))
        again.check(SHAPE)
        assert shown(SHAPE, again) == shown(SHAPE, block)
    together = fold(SHAPE, folded)
    together.check(SHAPE)
    assert_right(shown(SHAPE, together), truth(records), ALL)


KEYS = {
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [1.5, math.nan, -math.inf],
    "double": [0.1, math.nan, math.inf],
    "string": ["", "é", "a" * 300],
    "binary": [b"", b"\x00\xff"],
    "date": [dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
    "timestamp_ntz": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)],
    "decimal(38,2)": [Decimal("-9.99"), Decimal("12345678901234567890123456789012345.67")],
}


def shown_key(key):
    return " ".join(map(str, key))


def counts_of_keys(kinds, rows):
    """Blocks of one record per row of keys, cut in the middle, encoded, decoded and folded: (records, key) pairs."""
    shape = shape_of(HOUR, cases("sum"), kinds)
    columns = [pa.array(column, arrow_type(kind)) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    table = pa.table(columns, [f"k{i}" for i in range(len(kinds))])
    folded = []
    for part in (table.slice(0, len(table) // 2), table.slice(len(table) // 2)):
        codes, names = encode_keys(part)
        records = from_records(shape, np.zeros(len(part), np.int64), codes, names, [[pa.array([1] * len(part))]])
        folded.append(decode_text(shape, encode_text(shape, records)))
    block = fold(shape, folded)
    block.check(shape)
    keys = block.names.take(pa.array(block.keys)).to_pylist()
    return sorted((records, shown_key(key.values())) for records, key in zip(block.records, keys, strict=True))


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_kind(kind):
    values = [None, *KEYS[kind]]
    rows = [(value,) for value in [*values, *values, *values[1:]]]
    expected = sorted((2 if value is None else 3, shown_key([value])) for value in values)
    assert counts_of_keys([kind], rows) == expected


def test_several_key_columns():
    rows = [(a, b, c) for a in (None, "x", "y") for b in (None, math.nan, 1.0) for c in (None, False)]
    assert counts_of_keys(["string", "double", "boolean"], rows + rows) == sorted((2, shown_key(row)) for row in rows)


def test_codes_are_numbered_by_first_sight():
    table = pa.table({"k0": ["b", "a", "b"], "k1": pa.array([1, None, 1])})
    codes, names = encode_keys(table)
    assert codes.tolist() == [0, 1, 0]
    assert names.to_pylist() == [{"k0": "b", "k1": 1}, {"k0": "a", "k1": None}]
    assert encode_keys(table.slice(0, 0))[1].num_rows == 0


@pytest.mark.parametrize("seed", range(5))
def test_distinct_keys_are_sorted_by_their_integers(seed):
    rng = np.random.default_rng(seed)
    whole, some = rng.integers(-50, 50, 300), rng.integers(0, 4, 300).tolist()
    texts, nulls = [f"{each % 3}" for each in some], pa.array([each or None for each in some])
    columns = {
        "integers": ([whole], [("k0", "ascending")]),
        "two": ([pa.array(some, pa.int16()), whole], [("k0", "ascending"), ("k1", "ascending")]),
        "others between": ([texts, whole, nulls], [("k1", "ascending")]),
    }
    for given, by in columns.values():
        table = pa.table(dict(zip(("k0", "k1", "k2"), given, strict=False)))
        codes, names = encode_sorted(table)
        assert names.take(pa.array(codes)).equals(table)
        assert len(names) == len(set(map(str, names.to_pylist())))
        first = [name for name, _ in by]
        assert names.select(first).equals(names.sort_by(by).select(first))
    for given in ([texts], [nulls], [texts[:0]]):
        table = pa.table({"k0": given[0]})
        (codes, names), (others, there) = encode_sorted(table), encode_keys(table)
        assert codes.tolist() == others.tolist()
        assert names.equals(there)


def test_rows_stay_sorted_beside_those_of_fewer_keys():
    """Keys 5 and 3 come first, and would be numbered first."""
    rng = np.random.default_rng(0)
    few = block_of(SHAPE, ALL, [(0, 5, 1), (0, 3, 1)])
    keys = np.tile(np.arange(50), 20)
    many = block_of(
        SHAPE, ALL, [(1000 * (i // 50) + 1000, int(key), 1) for i, key in enumerate(keys) if rng.random() < 0.5]
    )
    both = fold(SHAPE, [few, many])
    both.check(SHAPE)
    within = np.diff(both.index) == 0
    assert np.all(np.diff(both.keys)[within][1:] > 0)
    assert shown(SHAPE, both) == shown(SHAPE, few) | shown(SHAPE, many)
    alone = len(encode(SHAPE, many))
    assert len(encode(SHAPE, both)) < alone + len(encode(SHAPE, few))


def test_a_block_without_rows():
    nothing = empty(SHAPE)
    nothing.check(SHAPE)
    again = decode(SHAPE, encode(SHAPE, nothing))
    again.check(SHAPE)
    assert len(again) == len(fold(SHAPE, [])) == len(fold(SHAPE, [nothing, again])) == 0
    block = block_of(SHAPE, ALL, random_records(0))
    assert shown(SHAPE, fold(SHAPE, [nothing, block, again])) == shown(SHAPE, block)


def test_names_are_stored_only_if_they_are_used():
    block = block_of(SHAPE, ALL, random_records(1))
    some = block.between(0, 3)
    assert sorted(set(some.index.tolist())) == [0, 1, 2]
    again = decode(SHAPE, encode(SHAPE, some))
    again.check(SHAPE)
    assert len(again.names) == len(np.unique(some.keys))
    assert shown(SHAPE, again) == shown(SHAPE, some)


def test_check_finds_what_is_wrong():
    block = block_of(SHAPE, ALL, [(0, 1, 5), (1000, 2, 6)])
    block.check(SHAPE)
    with pytest.raises(AssertionError):
        block.take(np.array([1, 0])).check(SHAPE)
    with pytest.raises(AssertionError):
        concat(SHAPE, [block, block]).check(SHAPE)
    with pytest.raises(AssertionError):
        replace(block, partials=block.partials[:1]).check(SHAPE)


RECORDS_WITH_NULLS = [(0, 1, None), (0, 1, 4), (0, 1, None), (0, 2, None), (0, 3, 7)]


def test_null_values_are_not_seen_but_counted_as_records():
    chosen = cases("sum", "rows", "floats", "highest", "joined")
    shape = shape_of(HOUR, chosen)
    found = shown(shape, block_of(shape, chosen, RECORDS_WITH_NULLS))
    assert found[1, 0] == [3, 4, (4, 1), pytest.approx(0.4), ("4", 1), "4,"]
    assert found[2, 0] == [1, 0, (0, 0), 0.0, (None, 0), ""], "init(), exactly"
    assert found[3, 0] == [1, 7, (7, 1), pytest.approx(0.7), ("7", 1), "7,"]


def test_null_values_are_seen_if_asked_for():
    def count_nulls(acc, values):
        return acc + np.ma.getmaskarray(values)

    rows = Aggregate(lambda: 0, lambda acc, v: acc + (v is None), lambda a, b: a + b, nulls=True)
    columns = Aggregate(lambda: 0, count_nulls, fieldwise(np.add), nulls=True, columns=True)
    chosen = [Case(aggregate, sum) for aggregate in (rows, columns)]
    shape = shape_of(HOUR, chosen)
    found = shown(shape, block_of(shape, chosen, RECORDS_WITH_NULLS))
    assert found == {(1, 0): [3, 2, 2], (2, 0): [1, 1, 1], (3, 0): [1, 0, 0]}


@pytest.mark.parametrize("seed", range(6))
def test_blocks_taken_apart_give_what_sorting_all_of_their_rows_gives(seed, monkeypatch):
    """Blocks alone in their slices, overlapping by one or by many, one inside another, out of order of time."""
    shifts = np.random.default_rng(seed).integers(0, 200, 5)
    folded = [block_of(SHAPE, ALL, random_records([seed, number], 60)) for number in range(5)]
    folded = [replace(block, index=block.index + shift) for block, shift in zip(folded, shifts, strict=True)]
    monkeypatch.setattr(folding, "PIECE_ROWS", 0)
    apart = fold(SHAPE, folded)
    apart.check(SHAPE)
    assert shown(SHAPE, apart) == shown(SHAPE, regroup(SHAPE, concat(SHAPE, folded)))


def test_folding_keeps_the_order_of_records_and_blocks():
    chosen = cases("joined")
    shape = shape_of(HOUR, chosen)
    first = block_of(shape, chosen, [(9, 1, 1), (1500, 1, 5), (3, 1, 2), (7, 2, 8)])
    second = block_of(shape, chosen, [(1, 2, 9), (0, 1, 3)])
    assert shown(shape, fold(shape, [first, second])) == {(1, 0): [3, "1,2,3,"], (2, 0): [2, "8,9,"], (1, 1): [1, "5,"]}
    assert shown(shape, fold(shape, [second, first]))[1, 0] == [3, "3,1,2,"]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 31])
def test_neighbours_are_joined_in_order(count):
    aggregate = Aggregate(
        lambda: "", lambda acc, v: acc + v.astype(str).astype(object), np.add, ordered=True, columns=True
    )
    shape = shape_of(HOUR, [Case(aggregate, sum)])
    block = block_of(shape, cases("sum"), [(0, 1, value) for value in range(count)])
    assert block.partials[0][0].tolist() == ["".join(map(str, range(count)))]


def failing(name):
    def fail_at(value, result):
        if value == 13:
            raise ValueError("unlucky")
        return result

    functions = {
        "agg": lambda acc, v: fail_at(v, acc + v),
        "combine": lambda a, b: fail_at(a + b, a + b),
    }
    chosen = {"agg": lambda acc, v: acc + v, "combine": lambda a, b: a + b} | {name: functions[name]}
    case = Case(Aggregate(lambda: 0, chosen["agg"], chosen["combine"]), sum)
    return [case], shape_of(HOUR, [case])


def test_new_ranks_leave_other_fields_as_they_are():
    """Where a key has no records, fields hold what no value is: that must not go by way of Arrow."""
    never = np.iinfo(np.int64).min
    aggregate = Aggregate(
        lambda: (never, -1),
        lambda acc, d, v: (d, v),
        lambda a, b: tuple(np.where(a[0] > b[0], x, y) for x, y in zip(a, b, strict=True)),
        partial="d date, v string",
        view="ranks",
        columns=True,
    )
    held = kernel("latest", aggregate)
    partials = held.spread(3)
    partials[0][1:], partials[1][1:] = [-5, 7], [0, 1]
    moved = held.rerank(partials, pa.array(["b", "d"]), pa.array(["a", "b", "c", "d"]))
    assert [column.tolist() for column in moved] == [[never, -5, 7], [-1, 1, 3]]
    assert partials[1].tolist() == [-1, 0, 1]


def test_a_failure_in_agg_names_function_key_and_slice():
    chosen, shape = failing("agg")
    records = [(0, 7, None), (0, 7, 1), (1000, 7, None), (-1, 8, 13), (1000, 9, 2)]
    with pytest.raises(FunctionFailed) as raised:
        block_of(shape, chosen, records)
    assert str(raised.value) == (
        "`agg` of `result0` raised ValueError: unlucky for key (8,) in slice "
        "[1969-12-31T23:59:59.999000, 1970-01-01T00:00:00). "
        "Handle such values in the function, or filter them out before the aggregation."
    )
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_failure_in_combine_names_function_key_and_slice():
    chosen, shape = failing("combine")
    first = block_of(shape, chosen, [(0, 7, 1), (2000, 7, 6), (2000, None, 6)])
    second = block_of(shape, chosen, [(0, 7, 1), (2000, None, 7)])
    with pytest.raises(
        FunctionFailed, match=r"`combine` of `result0` .* for key \(None,\) in slice .*00:00:00.002000, "
    ):
        fold(shape, [first, second])


def test_a_failure_in_columns_names_the_function():
    aggregate = Aggregate(lambda: 0, lambda acc, v: acc + v.nothing, np.add, columns=True)
    chosen = [Case(aggregate, sum)]
    with pytest.raises(FunctionFailed, match=r"`agg` of `result0` raised AttributeError: .* for key \(1,\) in slice"):
        block_of(shape_of(HOUR, chosen), chosen, [(0, 1, 1), (1, 1, 1)])


def test_parts_are_pages_of_the_whole(monkeypatch):
    block = block_of(SHAPE, ALL, random_records(2))
    assert [len(part) for part in sizes.parts(SHAPE, block)] == [len(block)]
    monkeypatch.setattr(sizes, "PAGE_BYTES", 2000)
    pages = list(sizes.parts(SHAPE, block))
    assert len(pages) > 5
    assert max(len(page) for page in pages) * 8 * len(SHAPE.row_schema) <= 2000
    for page in pages:
        page.check(SHAPE)
    assert np.concatenate([page.index for page in pages]).tolist() == block.index.tolist()
    assert shown(SHAPE, fold(SHAPE, pages)) == shown(SHAPE, block)
    assert len(list(sizes.parts(SHAPE, empty(SHAPE)))) == 1


# --- what functions may change, and what they must not return ---------------------------------------------------------


def grown(acc, values):
    for value in values:
        acc.append(value % 256)
    return acc


def appended(acc, value):
    return grown(acc if isinstance(acc, bytearray) else bytearray(acc), [value])


def each_appended(acc, values):
    for cell, value in zip(acc, values.tolist(), strict=True):
        grown(cell, [value])
    return acc


def counted_and_appended(acc, value):
    return acc[0] + 1, appended(acc[1], value)


def both_joined(a, b):
    return a[0] + b[0], bytes(a[1]) + bytes(b[1])


IN_PLACE = {
    "rows": (Aggregate(bytearray, appended, lambda a, b: bytes(a) + bytes(b), ordered=True, partial="s binary"), bytes),
    "rows of two fields": (
        Aggregate(
            lambda: (0, bytearray()), counted_and_appended, both_joined, ordered=True, partial="n long, s binary"
        ),
        lambda values: (len(values), bytes(values)),
    ),
    "columns": (
        Aggregate(bytearray, each_appended, np.add, ordered=True, partial="s binary", columns=True),
        bytes,
    ),
}


def some_null(rng, count):
    times, keys, values = (rng.integers(0, end, count).tolist() for end in (4000, 3, 256))
    return [(t, k, None if rng.random() < 0.3 else v) for t, k, v in zip(times, keys, values, strict=True)]


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("seed", range(6))
def test_an_agg_that_changes_its_accumulator_mixes_no_keys(name, seed):
    """Sliced in chunks, and eager: the values of each key and slice, nulls left out, in their order."""
    aggregate, truth = IN_PLACE[name]
    case, rng = Case(aggregate, truth), np.random.default_rng(seed)
    shape = shape_of(HOUR, [case])
    chunks = [some_null(rng, int(rng.integers(1, 40))) for _ in range(3)]
    expected = defaultdict(list)
    for time, key, value in (record for chunk in chunks for record in chunk):
        expected[key, time // 1000].append(value)
    expected = {place: truth([v for v in values if v is not None]) for place, values in expected.items()}
    folded = fold(shape, [decode(shape, encode(shape, block_of(shape, [case], chunk))) for chunk in chunks])
    assert {place: row[1] for place, row in shown(shape, folded).items()} == expected
    together = fold(shape, [block_of(shape, [case], chunk) for chunk in chunks])
    assert {place: row[1] for place, row in shown(shape, together).items()} == expected
    if name != "columns":
        # Slices are windows of one slice here, so the eager strategy gives the same.
        batches = [records_of(shape, [case], chunk) for chunk in chunks]
        eager = results(shape, all_windows(shape, [[0]], batches))
        assert {place: row[1] for place, row in eager.items()} == expected


def test_the_eager_strategy_gives_new_keys_partials_of_their_own():
    """Without `combine`, `agg` continues from the `init()` of each key of a page."""
    case = Case(Aggregate(bytearray, appended, partial="s binary"), bytes)
    shape = shape_of(HOUR, [case])
    found = results(shape, all_windows(shape, [[0]], [records_of(shape, [case], [(0, 1, 1), (1, 2, 2), (2, 1, 3)])]))
    assert found == {(1, 0): [2, b"\1\3"], (2, 0): [1, b"\2"]}


def test_cells_share_what_cannot_be_changed_only():
    for init, shared in ((lambda: (0, 2**70, "a", None), True), (lambda: (0, bytearray()), False)):
        aggregate = Aggregate(init, max, max, partial=", ".join(f"f{i} binary" for i in range(len(init()))))
        (cells,) = kernel("x", aggregate).spread((2, 2))
        assert cells.shape == (2, 2)
        assert (cells[0, 0] is cells[1, 1]) == shared
        assert cells[0, 0] == cells[1, 1] == init()


def refused_null(aggregate, records, values="bigint"):
    case = Case(aggregate, sum)
    with pytest.raises(InvalidType) as raised:
        block_of(shape_of(HOUR, [case]), [case], records)
    return str(raised.value)


NULLED = [(0, 7, 1), (0, 7, None), (1000, 8, -5), (1000, 8, None)]


def test_a_masked_cell_in_a_partial_is_refused_with_key_and_slice():
    """With nulls, `np.maximum` masks the cells of nulls: what is under the mask was taken for their value."""
    masking = Aggregate(lambda: -(2**63), np.maximum, np.maximum, columns=True, nulls=True)
    found = refused_null(masking, NULLED[2:])
    for part in (
        "`agg` of `result0`",
        "field `value bigint`",
        "no nulls",
        "masked",
        "key (8,)",
        "np.ma.filled",
        "slice [1970-01-01T00:00:00.001",
    ):
        assert part in found, part
    filling = Aggregate(
        lambda: -(2**63),
        lambda acc, v: np.maximum(acc, np.ma.filled(v, -(2**63))),
        np.maximum,
        columns=True,
        nulls=True,
    )
    chosen = [Case(filling, max)]
    shape = shape_of(HOUR, chosen)
    assert shown(shape, block_of(shape, chosen, NULLED)) == {(7, 0): [2, 1], (8, 1): [2, -5]}


def test_a_masked_array_without_masked_cells_is_an_array():
    aggregate = Aggregate(lambda: 0, lambda acc, v: acc + v, np.add, columns=True, nulls=True)
    chosen = [Case(aggregate, sum)]
    block = block_of(shape_of(HOUR, chosen), chosen, [(0, 1, 4)])
    assert type(block.partials[0][0]) is np.ndarray


def nothing_for(value, result):
    return lambda *arguments: None if arguments[-1] == value else result(*arguments)


@pytest.mark.parametrize(
    ("aggregate", "found"),
    [
        (Aggregate(lambda: 0, nothing_for(13, max), max), "got None"),
        (Aggregate(lambda: 0, lambda acc, v: None if v == 1 else acc + v, max), "got None"),
        (Aggregate(lambda: (0, 0), lambda acc, v: (acc[0], None if v == 13 else v), max), "got (0, None)"),
        (
            Aggregate(
                lambda: "",
                lambda acc, v: np.where(v == 13, None, v.astype(str)).astype(object),
                np.add,
                columns=True,
                ordered=True,
            ),
            "got None",
        ),
    ],
    ids=["last", "first", "tuple", "columns"],
)
def test_none_in_a_partial_is_refused_where_agg_makes_it(aggregate, found):
    text = refused_null(aggregate, [(0, 7, 2), (1000, 8, 1), (1000, 8, 13)])
    for part in ("`agg` of `result0`", "no nulls", found, "for key (8,) in slice [1970-01-01T00:00:00.001000"):
        assert part in text, part


@pytest.mark.parametrize("width", [1, 2])
def test_none_in_a_partial_is_refused_where_combine_makes_it(width):
    wrapped = (lambda x: x) if width == 1 else (lambda x: (0, x))
    last = (lambda x: x) if width == 1 else (lambda x: x[1])
    case = Case(
        Aggregate(
            lambda: wrapped(0),
            lambda acc, v: wrapped(last(acc) + v),
            lambda a, b: wrapped(None if last(a) + last(b) == 13 else last(a) + last(b)),
        ),
        sum,
    )
    shape = shape_of(HOUR, [case])
    parts = [block_of(shape, [case], [(0, 7, 1), (1000, 8, value)]) for value in (6, 7, 1)]
    for some in (parts[:2], parts):
        with pytest.raises(
            InvalidType, match=r"`combine` of `result0` .* no nulls; got .*None.* for key \(8,\) in slice"
        ):
            fold(shape, some)


@pytest.mark.parametrize("tree", ["two_layer", "three_layer", "recompute"])
@pytest.mark.parametrize("lower", [None, str], ids=["plain", "lower"])
def test_none_from_combine_in_assembly_is_refused_with_its_key(tree, lower):
    case = Case(
        Aggregate(
            lambda: 0,
            lambda acc, v: acc + v,
            lambda a, b: None if a + b > 19 else a + b,
            lambda ab, a: ab - a,
            lower,
            returns=lower and "string",
        ),
        sum,
    )
    shape = shape_of(hopping(6), [case])
    block = block_of(
        shape, [case], [(1000 * i, key, 5 if key == 2 and i == 7 else 3) for i in range(9) for key in (1, 2)]
    )

    def shown_or_located():
        for frame in assemble(shape, [tree], block):
            with locating(lambda row, frame=frame: show_window(shape, frame, row)):
                results(shape, [frame])

    with pytest.raises(InvalidType, match=r"`combine` or `invert` of `result0` .* no nulls; got None for key \(2,\)"):
        shown_or_located()


def test_none_is_a_value_where_init_has_it():
    """Functions that begin with None know what it means."""

    def larger(a, b):
        return b if a is None else a if b is None else max(a, b)

    case = Case(Aggregate(lambda: None, larger, larger, partial="most long"), max)
    pair = Case(
        Aggregate(
            lambda: (0, None),
            lambda acc, v: (acc[0] + 1, larger(acc[1], v)),
            lambda a, b: (a[0] + b[0], larger(a[1], b[1])),
            partial="n long, most long",
        ),
        max,
    )
    shape = shape_of(HOUR, [case, pair])
    block = block_of(shape, [case, pair], [(0, 1, None), (0, 2, 4), (1, 2, 3)])
    assert shown(shape, decode(shape, encode(shape, block))) == {(1, 0): [1, None, (0, None)], (2, 0): [2, 4, (2, 4)]}


def test_a_wrong_type_is_said_with_key_and_slice():
    case = Case(Aggregate(lambda: 0, lambda acc, v: "x" * 10**6 if v == 13 else v, max), sum)
    shape = shape_of(HOUR, [case])
    with pytest.raises(InvalidType) as raised:
        encode(shape, block_of(shape, [case], [(0, 7, 2), (1000, 8, 13)]))
    text = str(raised.value)
    for part in ("`value` of `result0` must be of type bigint; got 'xxx", "key (8,) in slice [1970-01-01T00:00:00.001"):
        assert part in text, part
    assert len(text) < 800


def test_a_long_key_is_cut_in_messages():
    case = Case(Aggregate(lambda: 0, lambda acc, v: acc // v, max), sum)
    shape = shape_of(HOUR, [case], ("string",))
    with pytest.raises(FunctionFailed) as raised:
        block_of(shape, [case], [(0, "k" * 10**7, 0)])
    text = str(raised.value)
    assert "kkk... (10,000,005 characters) in slice" in text
    assert len(text) < 600


@pytest.mark.parametrize("name", ["agg", "combine", "lower"])
@pytest.mark.parametrize("columns", [False, True])
def test_no_memory_is_nobodys_fault(name, columns):
    """It is raised as it is, and the function is not called for every item."""
    calls = []

    def exhausted(*arguments):
        calls.append(arguments)
        raise MemoryError("no room")

    functions = {"agg": lambda acc, v: acc + v, "combine": lambda a, b: a + b, "lower": lambda a: a} | {name: exhausted}
    aggregate = Aggregate(lambda: 0, **functions, returns="long", columns=columns)
    case = Case(aggregate, sum)
    shape = shape_of(hopping(2), [case])
    with pytest.raises(MemoryError, match="no room"):
        results(shape, assemble(shape, ["recompute"], block_of(shape, [case], [(0, 7, 2), (0, 8, 2), (1000, 8, 3)])))
    assert len(calls) == 1
