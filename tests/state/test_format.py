"""The format of state: headers and pages as text, what is refused, and what a query must have in common with it."""

import base64
import itertools
import json
import zlib
from collections import defaultdict
from functools import partial

import numpy as np
import pytest
from golden.make import load
from oracle import FINGERPRINT, evenly, hopping, shape_of
from test_state import WITH_ORDER, warm, watermark_of

from combinators.catalogue import CATALOGUE, sample_kinds
from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.kernels import kernel
from slicing.content import block
from slicing.content.packing import sealed, unsealed
from slicing.errors import InvalidType, StateMismatch
from slicing.state import slice_groups
from slicing.state.format.fingerprint import Fingerprint, fingerprint_of, layout_of
from slicing.state.format.header import FamilyState, Header, Result, SliceGroup, from_runs, stored_format, to_runs
from slicing.state.slice_groups import slices_per_group
from slicing.windows.families.even import Even


def rewritten(text, change):
    """A header whose content a function has changed."""
    content = json.loads(zlib.decompress(base64.b64decode(unsealed(text))))
    return sealed(base64.b64encode(zlib.compress(json.dumps(change(content)).encode())).decode())


def header(**more):
    result = Result(1, ["x"], "sum 1", ["total bigint"], "partials")
    family = FamilyState(3, 2, 1, None, ["two_layer"], 0, ["hopping", 5, 1, 0])
    return Header(["key0 bigint"], "1 over 1", [result], {"stripe": 4}, [family], **{"generations": {0: [1]}, **more})


# The header.


def test_a_header_reads_back():
    stream = warm(60, WITH_ORDER)
    stream.step(evenly(stream.family, range(60, 63)))
    head = Header.from_text(stream.store.text)
    assert head.fresh
    assert head.slice_groups
    assert head.lists
    assert Header.from_text(head.to_text()) == head
    assert Header.from_text(head.to_text()).to_text() == stream.store.text


def test_the_format_is_known_of_headers_that_cannot_be_read():
    text = header().to_text()
    assert stored_format(text) == 8
    assert stored_format(rewritten(text, lambda found: {**found, "format": 9})) == 9
    assert stored_format(load("every7")["scenarios"]["hopping, combined, on close"]["header"]) == 7


def test_the_fields_of_a_header_are_named():
    content = {}
    rewritten(header(watermark=7000).to_text(), lambda found: content.update(found) or found)
    assert content == {
        "format": 8,
        "keys": ["key0 bigint"],
        "buckets": "1 over 1",
        "results": [
            {"id": 1, "columns": ["x"], "version": "sum 1", "partial": ["total bigint"], "content": "partials"}
        ],
        "layout": {"stripe": 4},
        "families": [
            {
                "done": 3,
                "taking": 2,
                "kept": 1,
                "nodes": None,
                "trees": ["two_layer"],
                "id": 0,
                "spec": ["hopping", 5, 1, 0],
            }
        ],
        "generations": {"0": [1]},
        "watermark": 7,
        "clock": 0,
        "tick": None,
        "newest": None,
        "serial": 0,
        "revision": 0,
        "nonce": "",
        "fresh": [],
        "stripes": {},
        "late": [],
        "lists": {},
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content | {"ledgers": {}}, "header .* it has `ledgers`, which is not known"),
        (lambda content: {k: v for k, v in content.items() if k != "tick"}, "header .* it does not have `tick`"),
        (
            lambda content: content | {"families": [{**content["families"][0], "places": 1}]},
            "family in the header .* it has `places`, which is not known",
        ),
        (
            lambda content: content | {"results": [{**content["results"][0], "name": "total"}]},
            "result in the header .* it has `name`, which is not known",
        ),
        (lambda content: content | {"format": 9}, "state of format 9, this version reads formats 7 and 8"),
        (lambda content: [6, *content.values()], "state of format 6, this version reads formats 7 and 8.* Start with"),
        (lambda content: content | {"format": 7}, "not one of format 7 .* it has `buckets`, which is not known"),
    ],
)
def test_headers_of_other_versions_are_refused_by_name(change, message):
    with pytest.raises(StateMismatch, match=message):
        Header.from_text(rewritten(header().to_text(), change))


def test_cuts_are_stored_in_runs():
    assert to_runs([]) == []
    assert to_runs([[2, 3, 1, 0], [3, 4, 1, 0], [4, 6, 1, 0], [6, 8, 1, 0], [9, 11, 1, 0]]) == [
        [2, 1, 1, 2, 0],
        [4, 2, 1, 2, 0],
        [9, 2, 1, 1, 0],
    ]
    assert to_runs([[0, 1, 1, 0], [1, 2, 3, 0]]) == [[0, 1, 1, 1, 0], [1, 1, 3, 1, 0]]
    assert to_runs([[0, 1, 1, 0], [1, 2, 1, 1], [2, 3, 1, 1]]) == [[0, 1, 1, 1, 0], [1, 1, 1, 2, 1]]
    rng = np.random.default_rng(3)
    for _ in range(50):
        edges = np.cumsum(rng.integers(0, 3, 20)).tolist()
        pages = rng.integers((1, 0), (3, 2), (20, 2)).tolist()
        cuts = [[a, b, *more] for (a, b), more in zip(itertools.pairwise(edges), pages, strict=False) if a < b]
        assert from_runs(to_runs(cuts)) == cuts


def test_slice_groups_that_nobody_looks_into_stay_runs():
    cuts = [[0, 1, 1, 0], [1, 2, 1, 0], [2, 4, 1, 0]]
    head = header(slice_groups={2: SliceGroup([*cuts], [[7, 8, 10, 0, 0]]), 5: SliceGroup([[0, 4, 2, 0]])})
    read = Header.from_text(head.to_text())
    read.slice_groups[2].cuts.append([4, 5, 1, 0])
    assert read.slice_groups[5]._cuts is None
    assert Header.from_text(read.to_text()).slice_groups[2].cuts == [*cuts, [4, 5, 1, 0]]
    assert sorted(map(tuple, head.spans().tolist())) == [(8, 9), (8, 10), (9, 10), (10, 12), (20, 24)]


# Damage.


def test_a_changed_byte_is_found_wherever_it_is():
    """Any character of a header and of a page, by one bit, by several, and to what begins a text without one."""
    stream = warm(20, ("sum", "highest"))
    stream.store.name = "bucket 3"
    text, pages = stream.store.text, dict(stream.store.pages)
    name = min(pages, key=lambda page: len(pages[page]))
    for place in range(len(text)):
        for other in {chr(ord(text[place]) ^ 1), chr(ord(text[place]) ^ 32), "e", "\x00", "\xff"} - {text[place]}:
            stream.store.text = text[:place] + other + text[place + 1 :]
            with pytest.raises(StateMismatch, match=r"the header of bucket 3 cannot be read as state of format"):
                stream.bucket()
    stream.store.text = text
    read, page = stream.bucket().pages, pages[name]
    for place in range(len(page)):
        for other in {chr(ord(page[place]) ^ 1), chr(ord(page[place]) ^ 32), "\x00", "\x06", "\xff"} - {page[place]}:
            stream.store.pages[name] = page[:place] + other + page[place + 1 :]
            with pytest.raises(StateMismatch, match=rf"page `{name}` of bucket 3 cannot be read as state of format"):
                read.get(name, stream.shape, 0)


def test_a_sealed_text_is_the_text_or_an_error():
    assert unsealed(sealed("abc")) == "abc"
    with pytest.raises(ValueError, match="its checksum is not"):
        unsealed(sealed("abc")[:-1])


# Identity and layout.


def of(
    aggregate,
    columns=("x",),
    contents=("partials",),
    family=None,
    keys=("bigint",),
    buckets="1 over 1",
    name="n",
    **more,
):
    shape = block.Shape(family or hopping(60), shape_of(hopping(60), [], keys).keys, (kernel(name, aggregate),))
    return fingerprint_of(shape, contents, [columns], buckets, **more)


def stored(fingerprint):
    """A header of that query, as it is read."""
    head = fingerprint.header([0])
    head.layout["stripe"] = 3
    return Header.from_text(head.to_text())


def total(acc, value):
    return acc + value


def difference(acc, value, sign):
    return acc + sign * value


SUM = Aggregate(lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b)


@pytest.mark.parametrize(
    "other",
    [
        of(Aggregate(lambda: 0, total, lambda x, y: x + y)),
        of(Aggregate(int, partial(difference, sign=1), partial(total))),
        of(Aggregate(int, partial(difference, sign=-1), total, lambda ab, a: ab - a, lambda a: a, returns="long")),
        of(Aggregate(lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b, columns=True, nulls=True)),
        of(SUM, name="another"),
    ],
    ids=["def", "partial", "another partial, invert, lower", "columns", "name"],
)
def test_functions_and_names_may_change(other):
    """Nothing is known of a function, so nothing of it is compared."""
    head = stored(of(SUM))
    assert other.header_of(head) is head
    assert json.dumps(other.identity) == json.dumps(of(SUM).identity)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (of(SUM, ("y",)), "columns of result 1: checkpoint `x`, query `y`"),
        (of(SUM, ("x", None)), "columns of result 1: checkpoint `x`, query `x, event time`"),
        (of(SUM, keys=("string",)), "keys: checkpoint `key0 bigint`, query `key0 string`"),
        (of(SUM, buckets="2 over 2"), "buckets: checkpoint `1`, query `2`"),
        (
            of(Aggregate(float, SUM.agg, SUM.combine)),
            "partial of result 1: checkpoint `value bigint`, query `value double`",
        ),
        (
            of(Aggregate(int, SUM.agg, SUM.combine, version="2")),
            "version of result 1: checkpoint `1`, query `2`",
        ),
        (of(SUM, contents=("windows",)), "content: checkpoint `partials`, query `windows`"),
        (
            of(SUM, family=Even(60_000, 2_000)),
            "windows: checkpoint `hopping('60 milliseconds', advance='1 millisecond')`, "
            "query `hopping('60 milliseconds', advance='2 milliseconds')`",
        ),
    ],
)
def test_what_differs_is_refused_with_both_sides(other, difference):
    with pytest.raises(StateMismatch) as raised:
        other.header_of(stored(of(SUM)))
    assert str(raised.value) == (
        "Change the query back, or start with a new checkpoint: it was written by another query. "
        f"Different: {difference}."
    )


def test_a_checkpoint_that_does_not_say_its_time_column_has_that_of_the_next_start():
    """Those of version 0.1 do not; from then on another one is refused."""
    before, at, ts = of(SUM), of(SUM, time_column="at"), of(SUM, time_column="ts")
    head = ts.header_of(stored(before))
    assert layout_of(head) == {**before.layout, "time column": "ts"}
    with pytest.raises(StateMismatch, match="Different: time column: checkpoint `ts`, query `at`"):
        at.header_of(head)


def test_more_results_are_refused():
    fingerprint = of(SUM)
    more = Fingerprint({**fingerprint.identity, "results": fingerprint.identity["results"] * 2}, fingerprint.layout)
    with pytest.raises(StateMismatch, match="columns of result 2: checkpoint `none`, query `x`; partial of result 2"):
        more.header_of(stored(fingerprint))


def test_the_layout_is_plain_data():
    assert dict(of(SUM, family=Even(5_000, 2_000, 1_000)).layout) == {
        "cut": ["cut", [["every", 2000, 0], ["every", 2000, 1000]]],
        "families": [["hopping", 5000, 2000, 1000]],
        "content": "partials",
        "time": "event",
    }


def test_a_version_is_a_text():
    with pytest.raises(InvalidType, match='`version` must be a text, for example "2"; got 2'):
        Aggregate(lambda: 0, total, version=2)


# Slice groups of pages.


def test_slice_groups_of_a_checkpoint_stay_as_they_are(monkeypatch):
    """What new ones have may change, whatever trees do with theirs."""
    stream, closes = warm(60, ("sum", "most")), 0
    assert stream.bucket().head.layout["stripe"] == slices_per_group(60)
    monkeypatch.setattr(slice_groups, "slices_per_group", lambda longest: 5)
    for window in range(1, 30):
        stream.step(evenly(stream.family, [window + 59]), watermark_of(stream.family, window + 1))
        closes += len(stream.bucket().head.slice_groups) > 0
    assert closes
    assert stream.bucket().head.layout["stripe"] == slices_per_group(60) == 8
    stream.drain()
    other = warm(60, ("sum",))
    assert other.bucket().head.layout["stripe"] == 5
    other.fingerprint = FINGERPRINT
    other.bucket().check()


# What the catalogue says of its partials. A text that stands here is in checkpoints: it stays, unless partials of the
# same types come to mean something else. Those that may follow each other on a checkpoint have the same.

VERSIONS = {
    "bool_and": "combinators.outcomes",
    "bool_or": "combinators.outcomes",
    "corr": "combinators.pair",
    "count": "combinators.count",
    "count_if": "combinators.count_if",
    "covar_pop": "combinators.pair",
    "covar_samp": "combinators.pair",
    "first": "combinators.min_by",
    "kurtosis": "combinators.moments",
    "last": "combinators.max_by",
    "max": "combinators.max",
    "max_by": "combinators.max_by",
    "mean": "combinators.sum",
    "min": "combinators.min",
    "min_by": "combinators.min_by",
    "regr_intercept": "combinators.pair",
    "regr_r2": "combinators.pair",
    "regr_slope": "combinators.pair",
    "skewness": "combinators.moments",
    "stddev": "combinators.moments",
    "stddev_pop": "combinators.moments",
    "sum": "combinators.sum",
    "variance": "combinators.moments",
    "variance_pop": "combinators.moments",
}


def resolved(entry, kind):
    """The aggregate of an entry over a column of that kind."""
    bound = entry.of("x", "y")
    others = ("bigint",) if entry.by_time else entry.others
    return bound.resolve((kind, *others)[: len(bound.columns)])


def test_the_catalogue_says_what_its_partials_are_of():
    found = {each.name: {resolved(each, kind).version for kind in sample_kinds(each)} for each in CATALOGUE}
    assert found == {name: {text} for name, text in VERSIONS.items()}


def test_combinators_with_partials_of_the_same_types_are_told_apart():
    """Only those are not whose results follow from the same partials."""
    seen = defaultdict(set)
    for entry in CATALOGUE:
        aggregate = resolved(entry, min({"bigint", "boolean"} & set(sample_kinds(entry)), key=len))
        seen[aggregate.partial, aggregate.version].add(entry.name)
    assert sorted(map(sorted, seen.values())) == [
        ["bool_and", "bool_or"],
        ["corr", "covar_pop", "covar_samp", "regr_intercept", "regr_r2", "regr_slope"],
        ["count"],
        ["count_if"],
        ["first"],
        ["kurtosis"],
        ["last"],
        ["max"],
        ["max_by"],
        ["mean", "sum"],
        ["min"],
        ["min_by"],
        ["skewness"],
        ["stddev", "stddev_pop", "variance", "variance_pop"],
    ]
