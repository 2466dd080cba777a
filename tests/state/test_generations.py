"""What a header says of its pages: the columns of each generation, the names of lists, ids of results and families."""

from dataclasses import replace

import numpy as np
import pytest
from golden.every_kind import BERLIN, IN_TURNS, SCENARIOS, SEEN, WINDOWS, Line
from golden.make import load

import combinators as C
from slicing import by_edges, counting, session, sliding
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernels import kernel
from slicing.errors import StateMismatch
from slicing.state.format.fingerprint import families_of
from slicing.state.format.header import FamilyState, Header, Result
from slicing.state.format.list_names import (
    COUNTED,
    EARLY,
    EMITTED,
    LATER,
    LATEST,
    SESSIONS,
    THREE_LAYER,
    TWO_LAYER,
    WINDOW,
    parse,
)
from slicing.state.pages import Pages
from slicing.windows.specs import from_spec, short

STORED = load("every7")
TREES = {TWO_LAYER: "two_layer", THREE_LAYER: "three_layer"}
BEHIND = {SESSIONS: ["bigint"], EMITTED: ["bigint"], COUNTED: ["bigint", "bigint"]}
"""Columns that lists have behind those of results: where sessions end; since when, and until when, keys are counted."""


def opened(name):
    """A bucket of a golden file."""
    stored = STORED["scenarios"][name]
    return Line(name, stored["header"], stored["pages"])


def rest(name):
    """The micro-batches that it has not seen."""
    return STORED["streams"][SCENARIOS[name][0]][SEEN:]


# Lists of pages.


@pytest.mark.parametrize("name", ["", "two", "four total", "1 2 two total", "window x", "early", "late"])
def test_other_names_are_of_no_list(name):
    with pytest.raises(ValueError, match="no list of pages is called"):
        parse(name)


# Columns.


def kinds_of(head, generation, place):
    """The types of the columns of a page behind slice, key and records; `place` is the name of its list, if any."""
    found = None if place is None else parse(place)
    of = found and found.of
    if of in (EARLY, LATEST, LATER):
        return []
    columns = [] if of == EMITTED else head.columns(generation, "windows" if of == WINDOW else "partials")
    if of in TREES:
        (family,) = (each for each in head.families if each.id == found.family)
        ids = head.generations[generation]
        chosen = [ids[at] for at, tree in enumerate(family.trees) if tree == TREES[of]]
        columns = [(owner, field) for owner, field in columns if owner in chosen]
    return [field.split(" ", 1)[1] for _, field in columns] + BEHIND.get(of, [])


def places_of(head):
    """The list of each page, None for those of slices."""
    return {f"p{entry[0]}": name for name, entries in head.lists.items() for entry in entries}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name in IN_TURNS if name != "counting, eager, on close"])
def test_the_header_alone_says_which_columns_a_page_has(name, monkeypatch):
    """Those that the engines read it by, and every list has a name. Counted records are columns of no result."""
    line, get, read, heads = opened(name), Pages.get, {}, []

    def noted(self, page, shape, generation):
        read[page] = shape, generation
        return get(self, page, shape, generation)

    monkeypatch.setattr(Pages, "get", noted)
    seen = 0
    for batch in rest(name)[:6]:
        head = Header.from_text(line.store.text)
        heads.append(head)
        places = places_of(head)
        assert {parse(each).family for each in head.lists} <= {family.id for family in head.families}
        read.clear()
        line.step(*batch)
        for page, (shape, generation) in read.items():
            if page in places or page.startswith("c"):
                kinds = kinds_of(head, generation, places.get(page))
                assert shape.row_schema.types[3:] == [arrow_type(kind) for kind in kinds], (page, places.get(page))
                seen += 1
    assert seen or all(not head.lists for head in heads)


def test_fields_that_are_stored_once_are_one_column():
    head = opened("side by side, shared, on close").bucket().head
    shared = [Result(1, ["n"], "sum 1", ["high bigint", "low bigint", "n bigint"], "partials")]
    shared.append(Result(2, ["n"], "moments 1", ["n bigint of result 1", "mean double"], "partials"))
    head.results, head.generations = shared, {0: [1, 2]}
    assert head.columns(0, "partials") == [
        (1, "high bigint"),
        (1, "low bigint"),
        (1, "n bigint"),
        (2, "mean double"),
    ]


def test_every_page_has_the_generation_in_which_it_was_written():
    """A result has been removed since, and another one added: the old pages are still told by their own columns."""
    line = opened("hopping, combined, on close")
    pages = line.bucket().pages
    head = pages.head
    assert head.generation == 0
    old = [*head.fresh]
    head.results.append(Result(4, ["gap"], "combinators.max", ["value bigint"], "partials"))
    head.generations[1] = [3, 1, 4]
    read = Header.from_text(head.to_text())
    assert read == head
    assert read.generation == 1
    assert [field for _, field in read.columns(0, "partials")] == [
        field for result in head.results[:3] for field in result.partial
    ]
    assert [number for number, _ in read.columns(1, "partials")] == [3, 3, 1, 1, 1, 4]
    assert read.identity["results"][2] == {
        "columns": ["gap"],
        "version": "combinators.max",
        "partial": ["value bigint"],
    }
    shape = line.execution_plan.bucket(line.grace, line.fingerprint, opened_store(line), line.emission).shape
    added = kernel("gap", C.max("gap").resolve(("bigint",)))
    changed = replace(shape, kernels=(shape.kernels[2], shape.kernels[0], added))
    (block,) = line.shipped([[line_time(line), 1, 5, "a", 1]])
    partials = [block.partials[2], block.partials[0], added.spread(1)]
    dictionaries = [block.dictionaries[2], block.dictionaries[0], added.no_dictionary]
    pages.append(head.fresh, replace(block, partials=partials, dictionaries=dictionaries), changed)
    assert head.fresh[-1][4] == 1
    assert {entry[4] for entry in old} == {0}
    before = list(opened("hopping, combined, on close").bucket().pages.take(old, shape))
    for held, read in zip(before, pages.take(old, changed), strict=True):
        assert read.names == held.names
        for ours, theirs in ((0, 2), (1, 0)):
            assert all(map(np.array_equal, read.partials[ours], held.partials[theirs]))
        assert all(map(np.array_equal, read.partials[2], added.spread(len(held))))
    assert next(pages.take(head.fresh[-1:], changed)).records.tolist() == [1]


def opened_store(line):
    """A store as that of a line."""
    stored = Line("hopping, combined, on close")
    stored.store.text, stored.store.pages = line.store.text, dict(line.store.pages)
    return stored.store


def line_time(line):
    """An instant in the newest slice."""
    return int(line.window.family.slice_start(line.bucket().head.newest))


# Families.


def family_lists(head, number):
    return {name for name in head.lists if parse(name).family == number}


@pytest.mark.parametrize("name", ["several that end together, combined, on close", "side by side, combined, on close"])
def test_a_family_keeps_its_id_and_its_lists_whatever_its_place(name):
    """As if the families before it had been removed: the rows are those that the writer gave."""
    line = opened(name)
    head = line.bucket().head
    head.families[1].id = 7
    for each in family_lists(head, 1):
        head.lists["7 " + each.removeprefix("1 ")] = head.lists.pop(each)
    line.store.text = head.to_text()
    wanted = STORED["scenarios"][name]["rest"]
    held = 0
    for batch, rows in zip(rest(name), wanted, strict=True):
        assert line.step(*batch) == rows
        held += len(family_lists(Header.from_text(line.store.text), 7))
        head = Header.from_text(line.store.text)
        assert [family.id for family in head.families] == [0, 7]
        assert not family_lists(head, 1)
    assert held
    own = Line(name).window.family.families
    assert families_of(head) == own


@pytest.mark.parametrize("name", WINDOWS)
def test_the_families_of_a_header_are_those_of_the_query(name):
    scenario = next(each for each in SCENARIOS if SCENARIOS[each][0] == name)
    line = opened(scenario)
    line.step(*rest(scenario)[0])
    found = families_of(Header.from_text(line.store.text), [BERLIN])
    assert [each.spec() for each in found] == [each.spec() for each in line.window.family.families]


@pytest.mark.parametrize(
    "window", [session("4 seconds"), session(gap_column="gap"), sliding("8 seconds"), counting(6, 4), counting(5)]
)
def test_windows_that_records_decide_are_made_again_from_their_specs(window):
    family = window.family
    made = from_spec(family.spec())
    assert made == family
    assert type(made) is type(family)
    assert made.longest == family.longest


def test_of_a_long_list_the_windows_must_be_given():
    starts = [at * 10**7 for at in range(200)]
    family = by_edges(starts, [start + 10**7 for start in starts]).family
    assert short(family.spec())[:2] == ["by_edges", "digest"]
    assert from_spec(short(family.spec()), own=[family]) == family
    assert from_spec(short(family.cut.spec()), own=[family, family.cut]) == family.cut
    with pytest.raises(StateMismatch, match=r"only a digest is stored; got .*'by_edges', 'digest'.* Give the w"):
        from_spec(short(family.spec()), own=[family.cut])


# Format 7.


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_header_of_format_7_is_written_anew_and_nothing_is_lost(name):
    line = opened(name)
    old = Header.from_text(line.store.text)
    assert Header.from_text(old.to_text()) == old
    fresh = Line(name)
    assert {result.filtered for result in old.results} == {None}, "older code does not tell"
    assert old.results == [replace(result, filtered=None) for result in fresh.bucket().head.results]
    assert {result.filtered for result in line.bucket().head.results} == {False}
    assert [family.id for family in old.families] == list(range(len(old.families)))
    assert [family.spec for family in old.families] == [family.spec for family in fresh.bucket().head.families]
    assert old.generations == fresh.bucket().head.generations


def test_pages_without_a_checksum_are_refused_by_name():
    """Checkpoints that began with a format before 7 have such pages."""
    line = opened("hopping, combined, on close")
    pages = line.bucket().pages
    page = pages.head.fresh[0]
    name = f"p{page[0]}"
    pages.store.pages[name] = pages.store.pages[name][9:]
    with pytest.raises(StateMismatch, match=f"page `{name}` .* has no checksum, as if it were of a format before 7"):
        list(pages.take([page], None))


def test_ids_of_a_new_header_are_those_of_their_places():
    head = Line("several, combined, on close").bucket().head
    assert [result.id for result in head.results] == [1, 2, 3]
    assert [family.id for family in head.families] == [0, 1]
    assert isinstance(head.families[0], FamilyState)
