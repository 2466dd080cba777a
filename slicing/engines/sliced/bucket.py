"""The state of one bucket: how records get in and how windows go out.

Slices are the only truth; the trees' nodes are durable caches of them. Everything is a page in a key-value store:

    fresh     pages written since the last close, not in any cache yet
    stripes   for each stripe the slices that have entered, and those that came all at once
    late      what came to those slices later
    caches    the trees' nodes by name

A micro-batch in which nothing closes writes what came and the header, and reads nothing but to merge small pages. A
close reads what enters, moves the trees forward, and writes what entered from fresh pages into its stripes. Expired
stripes are removed whole. Who does what: `Slices` what families of windows share, a `Walker` for each family what goes
out of it as it closes, an `Emitting` what else goes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import fold
from slicing.engines.engine import Moment, begin
from slicing.engines.lateness import waits
from slicing.engines.sliced.changes import Changes
from slicing.engines.sliced.early import Early
from slicing.engines.sliced.emitting import Emitting
from slicing.engines.sliced.family_windows import Walker
from slicing.engines.sliced.late_firings import Corrections
from slicing.engines.sliced.latest import Latest
from slicing.engines.sliced.slices import Slices
from slicing.engines.sliced.updates import Updates
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.zone_tables import part
from slicing.state.pages import Pages
from slicing.state.store import Store
from slicing.triggers.emission import ALL, CHANGED, NEWEST, ON_CLOSE, UPDATE, Emission
from slicing.triggers.lateness import Late, Refused
from slicing.windows.families.several import leader


class Bucket:
    """One bucket over its store, for the length of one micro-batch: `add` what came, then `close`.

    `trees` has one of `assembly.TREES` for each kernel, of family after family. `grace` is in microseconds. With
    `wide` all families have their results in the rows of the one whose windows hold the others that end with them.
    Raises StateMismatch.
    """

    others: tuple[str, ...] = ()
    """How the names of lists of pages begin that are no caches, and not of this class."""

    def __init__(
        self,
        shape: Shape,
        trees: Sequence[str],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        emission: Emission = ON_CLOSE,
        wide: bool = False,
    ):
        self.shape, self.slicing, self.emission = shape, shape.slicing, emission
        families = shape.slicing.families
        wait = waits(emission, grace)
        self.zones = fingerprint.zones
        self.pages = Pages(store, fingerprint, [family.first_open(0, wait) for family in families])
        self.head = self.pages.head
        entered = (family.entered(walk.done) for family, walk in zip(families, self.head.families, strict=True))
        self.slices = Slices(shape, self.pages, emission, max(entered))
        count = len(shape.kernels)
        self.walkers = [
            Walker(i, shape.over(family), trees[i * count : (i + 1) * count], self.slices, emission, grace)
            for i, family in enumerate(families)
        ]
        leading = self._led() if wide else self.walkers
        self.emitting = emitting_of(emission)(emission, leading, self.slices)

    def _led(self) -> list[Walker]:
        number = leader([walker.family for walker in self.walkers])
        assert number is not None, "the windows are side by side"
        first = self.walkers[number]
        first.put_beside([walker for walker in self.walkers if walker is not first])
        return [first]

    @of_stage(ASSEMBLE)
    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """Judge the partials of a micro-batch, keep those of open windows, return and count those refused.

        All records of a slice belong to the same windows, so a slice is judged as one.
        """
        block = fold(self.shape, blocks)
        judged = [walker.judge(block.slices) for walker in self.walkers]
        accepted = np.logical_or.reduce([takes for takes, _ in judged])
        refused = np.logical_or.reduce([refuses for _, refuses in judged])
        late_for_all, late_for_some = (int(block.records[rows].sum()) for rows in (~accepted, accepted & refused))
        each = tuple(
            Refused(block.take(np.flatnonzero(refuses)), walker.walk.taking, self.head.watermark)
            for walker, (_, refuses) in zip(self.walkers, judged, strict=True)
        )
        self.slices.take(block if accepted.all() else block.take(np.flatnonzero(accepted)))
        return Late(late_for_all, late_for_some, each)

    @of_stage(ASSEMBLE)
    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield all that goes out in a micro-batch, then write the state that is left."""
        for walker in self.walkers:
            walker.fit_trees()
        came = self.slices.incoming
        moment = begin(self.head, self.emission, moment)
        self.slices.remember()
        yield from self.emitting.before(came)
        yield from self._closing(moment.watermark)
        yield from self.emitting.after(came, moment.clock)
        self._forget_other_emissions()
        self.head.nonce = self._kept()
        self._note_zones()
        self.pages.save_header()

    def _note_zones(self) -> None:
        """Keep what the slices that are there were cut by, for a start with other time zone data."""
        if not self.zones:
            return
        spans, start = self.head.spans(), self.shape.slicing.slice_start
        self.head.zones = {}
        if len(spans):
            first, last = int(start(int(spans[:, 0].min()))), int(start(int(spans[:, 1].max())))
            self.head.zones = {zone.name: part(zone, first, last) for zone in self.zones}

    def _closing(self, watermark: int) -> Iterator[Windows]:
        """The windows that the watermark closes, and the state that is left."""
        head, slices = self.head, self.slices
        due = [walker.move(watermark) for walker in self.walkers]
        if head.newest is None or not any(due):
            for walker in self.walkers:
                walker.step(is_empty=head.newest is None)
            slices.entered = max(walker.family.entered(walker.end) for walker in self.walkers)
            slices.write_incoming()
            return
        entered = max(walker.family.entered(walker.end) for walker in self.walkers)
        with closing(slices.take_fresh(entered)) as fresh:
            for walker in self.emitting.walkers:
                if walker.end > walker.first:
                    yield from walker.shown(self.emitting.closed(walker, fresh))
            is_left = any(walker.last + 1 >= walker.keep for walker in self.walkers)
            left = self._oldest()
            for walker in self.walkers:
                walker.passed(fresh, is_left)
            if is_left:
                slices.enter(fresh, entered, min(walker.family.first_slice(walker.keep) for walker in self.walkers))
                self._settle(left)
                # Apart from those, or the next close would read and write them all again.
                slices.write_incoming()
            else:
                slices.entered = entered
                slices.clear()

    def _oldest(self) -> int:
        return min(walker.oldest for walker in self.walkers)

    def _settle(self, left: int) -> None:
        """Two-layer trees read the stripe that is leaving slice by slice: there late rows had better be in place."""
        subtracts = any("two_layer" in walker.trees for walker in self.walkers)
        if subtracts and self.emission.has_trees and not self.emission.corrects:
            self.slices.settle(left, self._oldest())

    def _kept(self) -> str:
        """The nonce of what the process keeps until the next micro-batch."""
        if self.emission.which == ALL:
            return ""
        oldest = min(walker.family.first_slice(walker.walk.kept) for walker in self.walkers)
        if self.emission.which != CHANGED and self.head.newest is not None:
            oldest = max(oldest, self.slices.newest() - 2 * self.slices.longest + 1)
        return self.slices.recent.keep(oldest, self.emitting.kept())

    def _forget_other_emissions(self) -> None:
        """Remove the caches that this emission does not move forward; another one makes them anew."""
        own = self.others + self.emitting.own
        if self.emission.has_trees:
            own += tuple(name for walker in self.walkers for name in walker.own)
        for name in [name for name in self.head.lists if not name.startswith(own)]:
            self.pages.remove(self.head.lists.pop(name))
        if not self.emission.has_trees:
            for walker in self.walkers:
                walker.walk.nodes = None

    def extent(self) -> dict[str, int]:
        """How many slices the pages span, and how many open windows these are of; by the header, no page is read."""
        spans = self.slices.spans(self._oldest())
        if not len(spans):
            return {"open_windows": 0, "slices": 0}
        first, end = int(spans[:, 0].min()), int(spans[:, 1].max())
        windows = (walker.held(first, end) for walker in self.walkers)
        return {"open_windows": sum(windows), "slices": self.slices.count(self._oldest())}

    def check(self) -> None:
        """Assert the invariants between header and pages."""
        self.slices.check(min(walker.family.first_slice(walker.walk.kept) for walker in self.walkers))


def emitting_of(emission: Emission) -> type[Emitting]:
    """What carries an emission out."""
    if emission.corrects:
        return Corrections
    if emission.which == CHANGED:
        return Changes
    if emission.when == UPDATE:
        return Latest if emission.which == NEWEST else Updates
    return Emitting if emission.once else Early
