"""The features and the execution plan of a kind of windows; the base class is for windows assembled by trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import EAGER, choose
from slicing.engines.following import first_followed
from slicing.engines.wide_rows import NOT_KEPT
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import (
    Aggregation,
    Arguments,
    Eager,
    ExecutionPlan,
    Mixed,
    Sliced,
)
from slicing.state.format import changes
from slicing.triggers.lateness import COUNTS
from slicing.triggers.trigger import CHANGED, EMPTY, ENDS, NEWEST, PURGED, Trigger
from slicing.windows.families.family import TAILED, Family, emitted_before
from slicing.windows.families.several import end_together
from slicing.windows.window import Window

KEYS, STARTS, LATEST, WINDOWS, INCOMPLETE, AT = "keys", "starts", "latest", "windows", "incomplete", "at"
"""The names of the arguments of a lookup."""


CANNOT_END = {ENDS: "lets records end sessions, and other windows end when they are over. Leave out `ends`."}
"""The reason of windows that records cannot end."""


@dataclass(frozen=True)
class WindowSupport:
    """Support for windows that are assembled from slices; a subclass knows the type of its `window`."""

    window: Window

    from_slices: ClassVar[bool] = True
    """Whether the windows are ranges of slices, and can be looked up in the slices of other windows."""
    history_in_order: ClassVar[bool] = False
    """Whether the records of a history must be loaded in the order of their times."""
    apart: ClassVar[str] = "Say `long=True`, so that each window has rows of its own."
    """How windows of wide rows get rows of their own."""

    def check(self, tree: str, by_clock: bool, trigger: Trigger, streaming: bool) -> None:
        """Raise InvalidValue for options and triggers that these windows do not support."""
        self.check_tree(tree, by_clock, streaming)
        if streaming or trigger.ends or trigger.empty:
            trigger.refuse({**self.cannot, **self.cannot_purge(tree), **self.cannot_fill(tree)})

    def check_tree(self, tree: str, by_clock: bool, streaming: bool) -> None:
        """Raise InvalidValue for options that these windows do not support."""

    @property
    def cannot(self) -> Mapping[str, str]:
        """Return the questions of triggers that these windows cannot answer, each with the reason.

        The text of a reason follows the trigger in a message.
        """
        families = self.window.family.families
        if len(families) == 1 or end_together(families):
            return CANNOT_END
        return CANNOT_END | {
            CHANGED: "compares a window with the one before, for which several windows of one call must end "
            f"together; got {self.window}. Give them the same `advance`, or a call each."
        }

    def cannot_purge(self, tree: str) -> Mapping[str, str]:
        """Return why a trigger cannot purge one of these windows if `tree` is requested, in the form of `cannot`."""
        what = "drops the records of a window"
        if self.window.wide:
            why = f"{what}, and wide rows are of several windows; got {self.window}. Say `long=True`."
        elif tree not in ("auto", EAGER):
            why = f"{what}, which trees of slices share; got `{tree}`. Leave `.assemble` out."
        elif tree == EAGER or all(family.ratio <= 1 for family in self.window.family.families):
            return {}
        else:
            ratio = math.ceil(max(family.ratio for family in self.window.family.families))
            why = (
                f"{what}, and windows that overlap share them: each is then stored R = {ratio} times, in a partial of "
                'every window that holds it. Ask for that with `.assemble("eager")`, or use windows without overlap.'
            )
        return {PURGED: why}

    def cannot_fill(self, tree: str) -> Mapping[str, str]:
        """Return why windows without records cannot fire if `tree` is requested, in the form of `cannot`."""
        what = "fires windows without records"
        if not self.from_slices:
            why = f"{what}, and records decide which windows there are; got {self.window}. Leave `empty` out."
        elif self.window.wide:
            why = f"{what}, and wide rows are of several windows; got {self.window}. Use a call for each."
        elif len(self.window.family.families) > 1:
            why = f"{what} of one kind in a call; got {self.window}. Use a call for each."
        elif self.window.family.assembled == TAILED:
            why = f"{what}, and {self.window} merges old slices. Leave out `tail` or `empty`."
        elif tree == EAGER:
            why = f"{what}, and the eager plan stores windows with records only. Leave `.assemble` out."
        else:
            return {}
        return {EMPTY: why}

    @property
    def cannot_keep(self) -> str:
        """Return why a warm start cannot count records of the stream that lie in its history; empty if it can."""
        return ""

    def history_from(self, until: int, trigger: Trigger, retain: int = 0) -> int | None:
        """Return the first instant whose records are needed by windows that end after `until`; None if it is unknown.

        With `retain` also those whose slices are retained if the watermark is at `until`. All are in microseconds.
        """
        families = self.window.family.families
        starts = [self._first_needed(family, until, trigger) for family in families]
        if retain:
            starts += [_start_before(family, until - retain) for family in families]
        return min(until, *starts)

    def _first_needed(self, family: Family, until: int, trigger: Trigger) -> int:
        return int(family.slice_start(family.first_slice(self.first_window(family, until, trigger))))

    def first_window(self, family: Family, until: int, trigger: Trigger) -> int:
        """Return the first window of a family that ends after `until`, or one before it that the trigger needs."""
        first = family.first_open(family.placed(until), 0)
        if lasting := trigger.empty:
            return first_followed(family, first, lasting)
        return emitted_before(family, first, self.window.wide) if trigger.needs.compares else first

    def cannot_look_up(self, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the arguments that a lookup of these windows cannot have, each with the reason as text."""
        if EAGER in trees:
            keeps = "keeps results of whole windows, as not all of its aggregates combine, and no slices"
            newest = {LATEST: f"{keeps}: which of them holds the newest record of a key is not known. Ask by `starts`."}
            return {WINDOWS: f"{keeps}.", AT: f"{keeps}."} | (newest if set(trees) == {EAGER} else {})
        if self.window.family.has_gaps:
            return dict.fromkeys((WINDOWS, AT), "leaves out the records between its windows, which others may hold.")
        return {}

    def cannot_say_why(self, trees: Sequence[str]) -> str:
        """Return why the state cannot explain a result, empty if it can; the text follows the windows in a message."""
        if EAGER in trees:
            return "keeps results of whole windows, as not all of its aggregates combine"
        return "has several windows in one row. Give `windows=`, one of them" if self.window.wide else ""

    def check_why(self, trees: Sequence[str]) -> None:
        """Raise InvalidValue if the state has no slices, which explain a result."""
        if reason := self.cannot_say_why(trees):
            raise InvalidValue(
                f"`why` shows the slices of a window, and the state of {self.window} {reason}. "
                "Ask for the result by `lookup`."
            )

    def cannot_retain(self, trees: Sequence[str]) -> str:
        """Return why slices cannot be retained longer, empty if they can; the text follows the windows in a message."""
        if EAGER in trees:
            return "keeps results of whole windows, as not all of its aggregates combine"
        if any(family.assembled == TAILED for family in self.window.family.families):
            return "merges old slices to those of the tail, so they are no longer there to be kept"
        return ""

    def check_retain(self, trees: Sequence[str]) -> None:
        """Raise InvalidValue if slices cannot be retained."""
        if why := self.cannot_retain(trees):
            raise InvalidValue(f"`retain` keeps slices longer, and the state of {self.window} {why}. Leave it out.")

    def check_lookup(self, trees: Sequence[str], asked: Sequence[str]) -> None:
        """Raise InvalidValue if the state of these windows cannot answer a lookup with the arguments `asked`."""
        cannot = self.cannot_look_up(trees)
        for name in asked:
            if name in cannot:
                raise InvalidValue(f"`{name}` cannot be looked up: the state of {self.window} {cannot[name]}")

    def fixed(self, trigger: Trigger, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the reasons to refuse a checkpoint, by the names in `slicing.state.format.changes`.

        Windows can be added to wide rows only if the state has slices, and only under some triggers: the columns of the
        added windows are null until these windows have all their records. Until then the trigger must be one of these.
        """
        if not self.window.wide:
            return {}
        if EAGER in trees:
            return {changes.WINDOWS: f"refused: {NOT_KEPT}. Start with a new checkpoint.", changes.LACKING: NOT_KEPT}
        if why := trigger.cannot_lack():
            return {changes.WINDOWS: f"refused: {why}. Change them with on_close().", changes.LACKING: why}
        return {}

    @property
    def cannot_process(self) -> Mapping[str, str]:
        """Return the questions of triggers that `process` does not answer, in the form of `cannot`."""
        return {
            NEWEST: "keeps one total of each key, and records have none. Use on_update().",
            CHANGED: "compares the results of windows, and `process` and `evict` read their records. Use on_close(), "
            "and compare in the function or after it.",
        }

    def check_process(self, tree: str, trigger: Trigger, streaming: bool) -> None:
        """Raise InvalidValue for options that functions of records (`process`) do not support."""
        if self.window.wide:
            raise InvalidValue(
                f"`process` and `evict` read the records of one window, and wide rows are of several; got "
                f"{self.window}. {self.apart}"
            )
        if tree != "auto":
            raise InvalidValue(
                f"`process` and `evict` read the records of a window, without a tree; got `{tree}`. "
                "Leave `.assemble` out."
            )
        if streaming and trigger.purges and self.from_slices:
            raise InvalidValue(
                f"{trigger} drops the records of a window, and `process` and `evict` keep them in slices, once for all "
                "windows. Use `aggregate` without `evict`, for a function with `then=`, or windows that a key has "
                "one at a time: session() and unbounded()."
            )
        if streaming:
            trigger.refuse(self.cannot_process)
        _check_rows(trigger, streaming)

    def check_then(self, trigger: Trigger, late: str, streaming: bool) -> None:
        """Raise InvalidValue for options that functions of results (`then`) do not support."""
        if self.window.wide:
            raise InvalidValue(
                f"`then` makes rows of one window, and wide rows are of several; got {self.window}. {self.apart}"
            )
        if streaming and late != COUNTS:
            raise InvalidValue(
                f"late rows have results, and `then` makes other rows of windows; got late({late!r}). "
                "Leave `.late` out, or `then`."
            )
        _check_rows(trigger, streaming)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return additional columns of records, after those of results."""
        return ()

    def kernels(
        self, kernels: tuple[Kernel, ...], arguments: Arguments, has_time: bool
    ) -> tuple[tuple[Kernel, ...], Arguments]:
        """Return the kernels and the columns of each, including kernels that rows need in addition to results."""
        return kernels, arguments

    def tree_of(self, kernel: Kernel, family: Family, trigger: Trigger, asked: str = "auto") -> str:
        """Return the tree of a kernel and a family: the one that is asked for, or the best one.

        A trigger that purges needs the eager plan, which stores windows separately.
        """
        wanted = EAGER if trigger.purges and self.from_slices else asked
        best = EAGER if wanted == EAGER or kernel.aggregate.eager else choose(kernel, family)
        return best if wanted == "auto" or best in (EAGER, "recompute") else wanted

    def trees(self, trees: tuple[str, ...]) -> tuple[str, ...]:
        """Return the trees of all kernels after adapting them to each other, from the best tree of each."""
        return trees

    def execution_plan(self, asked: Aggregation) -> ExecutionPlan:
        """Return the execution plan; results share fields if all are assembled from slices."""
        if EAGER not in asked.trees:
            return Sliced(*asked.common, self.window.wide, shares=True, empty=asked.empty)
        return (Eager if set(asked.trees) == {EAGER} else Mixed)(*asked.common, self.window.wide)


def _start_before(family: Family, instant: int) -> int:
    """Return the start of the last window that begins at or before the slice of an instant: windows are kept whole."""
    return int(family.slice_start(family.first_slice(family.last_window(family.slice_at(instant)))))


def _check_rows(trigger: Trigger, streaming: bool) -> None:
    """Raise InvalidValue if the trigger emits replaced results: a function makes any number of rows of a window."""
    if streaming and trigger.accumulation.retracts:
        raise InvalidValue(
            f"{trigger} emits what a row replaces, and a function makes any number of rows of a window. Replace "
            "all rows of a key and window by those of a greater `revision`."
        )
