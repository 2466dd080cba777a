"""What each option of the builder declares: the method that sets it, and the queries that have it."""

from dataclasses import fields, replace
from inspect import signature
from pathlib import Path

import pytest

import combinators as C
from slicing import group_by, keep_last, on_update, tumbling
from slicing.grouping import Windowed
from slicing.options import METHODS, NO_OPTIONS, Options, Reach

WINDOWED = group_by("user").window(tumbling("1 day"), time="ts")
SET = {
    "grace": WINDOWED.grace("2 hours"),
    "buckets": WINDOWED.buckets(16),
    "tree": WINDOWED.assemble("three_layer"),
    "late": WINDOWED.late("partials"),
    "trigger": WINDOWED.emit(on_update()),
    "idle": WINDOWED.idle("1 minute"),
    "evictors": WINDOWED.evict(keep_last(3)),
    "evictors_after": WINDOWED.evict(keep_last(3), after=True),
    "adapt": WINDOWED.adapt("allow"),
    "retain": WINDOWED.retain("7 days"),
}
"""A builder with each field of `Options` set."""
AT_CLOSE = {"grace", "buckets", "idle", "evictors", "evictors_after", "adapt", "retain"}
"""What lookups, partials and served slices have of a query."""
QUICKSTART = Path(__file__).resolve().parents[2] / "docs" / "quickstart.md"


def test_every_method_of_the_builder_that_sets_an_option_is_declared():
    public = {name: value for name, value in vars(Windowed).items() if not name.startswith("_")}
    assert {name for name, value in public.items() if signature(value).return_annotation == "Windowed"} == {*METHODS}


def test_each_method_sets_its_field():
    assert [*SET] == [each.name for each in fields(Options)]
    for each in fields(Options):
        assert str(SET[each.name].options).startswith(f".{each.metadata['method']}(")
        assert replace(SET[each.name].options, **{each.name: each.default}) == NO_OPTIONS


@pytest.mark.parametrize(
    ("least", "kept"),
    [
        (Reach.OUTPUT, SET.keys()),
        (Reach.SLICES, AT_CLOSE),
        (Reach.STREAM, AT_CLOSE - {"retain"}),
        (Reach.KEYS, {"buckets"}),
    ],
)
def test_derived_queries_have_the_options_that_reach_them(least, kept):
    every = Options(**{name: getattr(made.options, name) for name, made in SET.items()})
    wanted = {name: getattr(every, name) if name in kept else getattr(NO_OPTIONS, name) for name in SET}
    assert every.reaching(least) == Options(**wanted)


@pytest.mark.parametrize("method", METHODS)
def test_it_is_in_the_quickstart_and_in_the_hints(method):
    options = QUICKSTART.read_text(encoding="utf-8").partition("\n## Options\n")[2].partition("\n## ")[0]
    assert f"`.{method}(" in options
    with pytest.raises(AttributeError, match="Options come before the results"):
        getattr(WINDOWED.define(n=C.count()), method)
    with pytest.raises(AttributeError, match="Windows come first"):
        getattr(group_by("user"), method)
