"""The rules of a call that need no schema; `RULES_OF_DRAFTS` are those of a call without a DataFrame, in order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TypeAlias

from slicing.aggregates.aggregate import EVENT_TIME
from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import EAGER, EAGER_RATIO, TREES
from slicing.drafts.call import Call, Time
from slicing.drafts.draft import Draft
from slicing.errors import InvalidValue
from slicing.stages.support_of import support_of
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import COUNTS, LATE, TIMES
from slicing.triggers.trigger import FIRING, Trigger
from slicing.windows.clock import ProcessingTime
from slicing.windows.families.family import Family
from slicing.windows.time.durations import show


def windows_take_the_options_somewhere(asked: Draft) -> None:
    """The windows must support the tree and the trigger of the call, either on a stream or on bounded input."""
    call, support = asked.call, support_of(asked.call.window)
    if isinstance(call.time, ProcessingTime):  # processing time exists only on streams
        support.check(call.options.tree, True, call.options.trigger, True)
        if call.options.grace:
            raise InvalidValue(no_grace(Time.CLOCK, call.options.grace))
        if call.options.trigger.fires_late:
            raise InvalidValue(no_late_firings(Time.CLOCK, call.options.trigger))
        return
    with suppress(InvalidValue):
        support.check(call.options.tree, False, call.options.trigger, True)
        return
    support.check(call.options.tree, False, ON_CLOSE, False)


def no_grace(clock: Time, grace: int) -> str:
    """Return the message of a grace where nothing is late."""
    return f"`grace` waits for late records, and nothing is late {clock.value}; got {show(grace)}. Leave it out."


def no_late_firings(clock: Time, trigger: Trigger) -> str:
    """Return the message of late firings where nothing is late."""
    return f"{trigger} is about late records, and nothing is late {clock.value}. Leave it out."


Fold: TypeAlias = Callable[[str], str]


def first_taken(asked: Draft, found: Callable[[Fold], str | None]) -> str | None:
    """Return the first name that is not free, by Spark's rule for names that differ in case only."""
    name = found(str.casefold)
    return found(str) if name is not None and asked.is_case_sensitive else name


def among(names: Iterable[str], taken: Iterable[str]) -> Callable[[Fold], str | None]:
    """Return a function that finds the first name which is taken."""

    def found(fold: Fold) -> str | None:
        others = set(map(fold, taken))
        return next((name for name in names if fold(name) in others), None)

    return found


def _repeated(names: Collection[str]) -> Callable[[Fold], str | None]:
    def found(fold: Fold) -> str | None:
        counts = Counter(map(fold, names))
        return next((name for name in names if counts[fold(name)] > 1), None)

    return found


def _reserved(asked: Draft) -> tuple[str, ...]:
    """The names of output columns that are neither keys nor results.

    `results` and `late_partials` know columns by their names alone, as rows may come from a table. So with late rows
    the time columns of all windows and the columns of all triggers that fire again are reserved.
    """
    found = (*asked.window.columns, *asked.trigger.columns)
    if asked.call.options.late == COUNTS:
        return found
    return (*found, LATE, *TIMES, *(FIRING if asked.trigger.columns else ()))


def _by_late(asked: Draft) -> str:
    return "" if asked.call.options.late == COUNTS else ", or one that `.late(...)` reserves"


def keys_are_not_columns_of_the_emission(asked: Draft) -> None:
    """A key must not have the name of a column that the trigger adds."""
    if name := first_taken(asked, among(asked.key_names, asked.trigger.columns)):
        raise InvalidValue(
            f"a key column cannot be called `{name}`: {asked.trigger} adds a column of that name. Rename it."
        )


def results_differ_from_other_columns(asked: Draft) -> None:
    """A result must not have the name of another output column."""
    others = among(asked.result_names, (*_reserved(asked), *asked.key_names))
    if name := first_taken(asked, others) or first_taken(asked, _repeated(asked.result_names)):
        raise InvalidValue(
            f"result name `{name}` collides with a column of the output{_by_late(asked)}. Choose another name."
        )


def keys_differ(asked: Draft) -> None:
    """No two keys may have the same name."""
    if first_taken(asked, _repeated(asked.key_names)):
        raise InvalidValue(f"key columns must differ; got {', '.join(asked.key_names)}.")


def keys_differ_from_columns_of_windows(asked: Draft) -> None:
    """A key must not have the name of a column of windows or of late rows."""
    if name := first_taken(asked, among(asked.key_names, _reserved(asked))):
        raise InvalidValue(
            f"a key column cannot be called `{name}`: it is a column of the output{_by_late(asked)}. Rename it."
        )


def times_of_results_are_given(asked: Draft) -> None:
    """Without a time column, no result may use the event time."""
    for name, bound in asked.results.items() if asked.call.time is None else ():
        if EVENT_TIME in bound.inputs:
            raise InvalidValue(
                f"`{name}` is {bound.label}, which goes by the event time, and no time is given. "
                'Name its column, for example time="ts".'
            )


def windows_that_keep_partials_have_some(asked: Draft) -> None:
    """Windows that store partials must not have eager results."""
    wanted = asked.call.options.tree
    eager = [k.label for k in asked.kernels if wanted == EAGER or k.aggregate.eager or k.aggregate.combine is None]
    if asked.window.keeps and eager:
        raise InvalidValue(
            f"{asked.window} {asked.window.keeps}, and `{eager[0]}` is eager: it has no partials. Give it a `combine`."
        )


def trees_suit_their_results(asked: Draft) -> None:
    """Each result must provide the functions that its tree needs; see `OF_TREES`."""
    for shape in map(asked.shape.over, asked.families):
        for each in asked.kernels:
            if asked.call.options.tree != EAGER and not each.aggregate.eager:
                for rule in OF_TREES:
                    rule(each, shape.family, asked.call.options.tree)


def tree_has_combine(each: Kernel, family: Family, wanted: str) -> None:
    """An explicitly chosen tree needs `combine`."""
    if wanted in TREES and each.aggregate.combine is None:
        raise InvalidValue(
            f"a tree needs `combine`, which `{each.label}` does not have. Give it one, or say that it is eager: "
            "`Aggregate(..., eager=True)`."
        )


def many_windows_of_a_record_are_asked_for(each: Kernel, family: Family, wanted: str) -> None:
    """Without `combine`, more than `EAGER_RATIO` windows per record require an explicit `eager=True`."""
    if each.aggregate.combine is None and (ratio := family.ratio) > EAGER_RATIO:
        from slicing.drawing import number

        pages = math.ceil(ratio)
        raise InvalidValue(
            f"`{each.label}` has no `combine`, so that every record is folded into every window that covers it, "
            f"R = {number(ratio)}: {pages:,} pages of windows are read and {pages:,} written for a record. "
            f"Above R = {EAGER_RATIO} that has to be asked for. Give it a `combine`, with which a record costs one "
            "write at any R, or say `Aggregate(..., eager=True)`."
        )


def two_layers_have_invert(each: Kernel, family: Family, wanted: str) -> None:
    """The two-layer tree needs an exact `invert`."""
    if wanted == "two_layer" and each.aggregate.invert is None:
        raise InvalidValue(
            f"the two-layer tree needs an exact `invert`, which `{each.label}` does not have. "
            'Use `.assemble("auto")`, which chooses a tree for each aggregate.'
        )


OF_TREES: tuple[Callable[[Kernel, Family, str], None], ...] = (
    tree_has_combine,
    many_windows_of_a_record_are_asked_for,
    two_layers_have_invert,
)
"""The rules of a result that is not eager: its kernel, the family of its windows, and the tree in the call."""
RULES_OF_DRAFTS: tuple[Callable[[Draft], None], ...] = (
    windows_take_the_options_somewhere,
    keys_are_not_columns_of_the_emission,
    results_differ_from_other_columns,
    keys_differ,
    keys_differ_from_columns_of_windows,
    times_of_results_are_given,
    windows_that_keep_partials_have_some,
    trees_suit_their_results,
)
"""The rules of a call without a DataFrame: those that need no schema and hold for streams and bounded input alike."""


def check_defined(call: Call, is_case_sensitive: Callable[[], bool]) -> None:
    """Check a call without a DataFrame. Raises InvalidValue or InvalidType for the first rule that it breaks.

    `is_case_sensitive` says whether names that differ in case are different names.
    """
    draft = Draft(call, is_case_sensitive)
    for rule in RULES_OF_DRAFTS:
        rule(draft)
