"""Results that share fields: a bucket stores groups of fields, and yields windows with the partials of each result.

new records   groups of fields
stored        groups of fields; or all fields of each result, in a checkpoint that was written so
a frame       the fields of each result; results of one group have the same arrays
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from slicing.aggregates.sharing import Sharing
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.engines.bucket import OpenBucket, Wrapper
from slicing.engines.looking import Found, Look, Pieces, Unknown
from slicing.errors import StateMismatch
from slicing.state.format.coverage import Coverage
from slicing.state.format.fingerprint import REFUSE, Fingerprint
from slicing.state.format.header import SAME, Header, known_since
from slicing.triggers.lateness import Late
from slicing.triggers.trigger import MicroBatchTime


@dataclass(frozen=True)
class FieldGroups:
    """The shape and trees of the results, and how these share fields."""

    shape: Shape
    trees: tuple[str, ...]
    sharing: Sharing

    @cached_property
    def stored(self) -> Shape:
        """The shape of the stored blocks: one kernel for each group."""
        kernels = self.sharing.kernels(self.shape.kernels)
        return replace(self.shape, kernels=kernels, same=self.sharing.same)

    @property
    def stored_trees(self) -> tuple[str, ...]:
        """The tree of each group, for one family after another."""
        count = len(self.shape.kernels)
        families = (self.trees[start : start + count] for start in range(0, len(self.trees), count))
        return tuple(tree for trees in families for tree in self.sharing.select(trees))

    def fingerprint(self, of_results: Fingerprint) -> Fingerprint:
        """Return the fingerprint of a query with only the leader of each group as a result; it has the same state."""
        results = [dict(result) for result in self.sharing.select(of_results.identity["results"])]
        names, shares = self.sharing.select(of_results.names), self.sharing.select(of_results.shares)
        codes = self.sharing.select(of_results.codes) if of_results.codes else ()
        filtered = self.sharing.select(of_results.filtered) if of_results.filtered else ()
        for (group, field), (other, _) in self.sharing.same.items():
            results[group]["partial"] = [*results[group]["partial"]]
            results[group]["partial"][field] += f"{SAME}{other + 1}"
        identity = {**of_results.identity, "results": results}
        return replace(of_results, identity=identity, names=names, shares=shares, filtered=filtered, codes=codes)

    def since(self, head: Header) -> tuple[int | None, ...]:
        """Return for each result the first microsecond at which a window with it may start, by a header of groups."""
        groups = head.current
        return tuple(known_since(groups[view.group], view.fields) for view in self.sharing.views)

    def block(self, block: Block) -> Block:
        """Convert a block of groups to a block of results."""
        dictionaries = self._dictionaries(block.dictionaries)
        return replace(block, partials=self.sharing.partials(block.partials), dictionaries=dictionaries)

    def late(self, late: Late[Block]) -> Late[Block]:
        """Convert the late rows of groups to rows of results."""
        return replace(late, refused=tuple(replace(each, rows=self.block(each.rows)) for each in late.refused))

    def windows(self, windows: Windows) -> Windows:
        """Convert windows of groups to windows of results."""
        return replace(
            windows,
            partials=self.sharing.partials(windows.partials),
            dictionaries=self._dictionaries(windows.dictionaries),
            old=windows.old and self.windows(windows.old),
            aligned=tuple(map(self.windows, windows.aligned)),
        )

    def found(self, found: Found) -> Found:
        """Convert a part of the answer to a lookup."""
        if isinstance(found, Windows):
            return self.windows(found)
        if isinstance(found, Unknown):
            return found
        if isinstance(found, Pieces):
            found = replace(found, shape=self.shape.over(found.shape.family))
        return replace(found, rows=self.block(found.rows))

    def _dictionaries(self, of_groups: Sequence[object]) -> list[object]:
        pairs = zip(self.sharing.views, self.shape.kernels, strict=True)
        return [None if own.no_dictionary is None else of_groups[view.group] for view, own in pairs]


class SharedFields(Wrapper):
    """A wrapper around an engine of any kind, for results that share fields.

    With `of_groups` the wrapped engine stores groups of fields; its windows and late rows are converted to results.
    Otherwise it stores all fields of each result, because its checkpoint was written before they were shared; the
    blocks that it accepts are converted.
    """

    def __init__(self, engine: OpenBucket, grouped: FieldGroups, of_groups: bool):
        super().__init__(engine)
        self.grouped, self.of_groups = grouped, of_groups

    @property
    def coverage(self) -> Coverage:
        """Which records the bucket has, of each result."""
        coverage = self.engine.coverage
        return replace(coverage, results=self.grouped.since(self.head)) if self.of_groups else coverage

    def shown(self, late: Late[Block]) -> Late[Block]:
        """Return late rows of groups as rows of results."""
        return self.grouped.late(late) if self.of_groups else late

    def stored(self, shipped: Sequence[Block]) -> Sequence[Block]:
        """Return blocks of groups in the form in which the engine stores them."""
        return shipped if self.of_groups else [self.grouped.block(block) for block in shipped]

    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield the windows of results that fire in the micro-batch, then write the remaining state."""
        windows = self.engine.close(at)
        return map(self.grouped.windows, windows) if self.of_groups else windows

    def look(self, asked: Look) -> Iterator[Found]:
        """Yield what is looked up, with the partials of results, then the windows that are unknown."""
        found = self.engine.look(asked)
        return map(self.grouped.found, found) if self.of_groups else found


def shared_fields(
    grouped: FieldGroups,
    fingerprint: Fingerprint,
    of_groups: Callable[[Fingerprint], OpenBucket],
    of_results: Callable[[Fingerprint], OpenBucket],
) -> SharedFields:
    """Return the engine in the layout of its checkpoint; `of_groups` and `of_results` open it in one layout each.

    A checkpoint of another query, if it may be adapted, continues with groups. Raises StateMismatch if the checkpoint
    fits to neither layout; the message is that for groups, which a new checkpoint would have.
    """
    groups = grouped.fingerprint(fingerprint)
    try:
        return SharedFields(of_groups(replace(groups, adapt=REFUSE)), grouped, of_groups=True)
    except StateMismatch as mismatch:
        try:
            return SharedFields(of_results(replace(fingerprint, adapt=REFUSE)), grouped, of_groups=False)
        except StateMismatch:
            if fingerprint.adapt == REFUSE:
                raise mismatch from None
            return SharedFields(of_groups(groups), grouped, of_groups=True)
