"""Lookups in the state of a scenario, after any micro-batch, against the records that were accepted so far.

A lookup reads a copy of the state in which only the pages are that it may read, and which refuses every write. It must
give each window that accepts records, with these. What it gives beside them must be right too: a window that has
closed, or that the query does not have, is there whole or not at all.
"""

import random
from itertools import product
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slicing.content.block import Shape
from slicing.engines.looking import Look, Other, over_one_cut
from slicing.stages.looking import ReadOnly, header_of, pages_looked_up
from slicing.state.store import Store
from slicing.windows.time.slices import FOREVER

from .changes import lack
from .kind import PARTIALS, Kind, in_order


class Found(NamedTuple):
    """A row of a lookup: number of records and results, and since when the window is known, if not from its start."""

    row: tuple
    known: int | None


class Lookups:
    """What is asked of the buckets of a scenario between two micro-batches."""

    def __init__(self, made):
        self.made = made

    @property
    def kind(self) -> Kind:
        """The windows of the query, which may change."""
        return self.made.kind

    # --- asking ---

    def ask(self, other: Kind | None = None, **asked) -> dict[tuple, Found]:
        """Rows by (key, part, start, end), of the windows of the query or of another kind over its edges."""
        found = {}
        for label, store in self.made.stores.items():
            if store.text is not None:
                rows = self._rows(label, store, other, asked)
                assert not found.keys() & rows.keys(), "a key is in one bucket"
                found |= rows
        return found

    def _rows(self, label: int, store: Store, other: Kind | None, asked: dict) -> dict[tuple, Found]:
        grace = self.made.grace + self.made.kind.window.family.closed_right
        bucket = self.made.execution_plan.bucket(
            grace, self.made.fingerprint, readable(label, store), self.made.trigger
        )
        shape, families = self.made.shape, self.made.families
        if other is not None:
            families = tuple(part.window.family.over(shape.family.cut) for part in other.parts)
            shape = shape.over(over_one_cut(families))
            asked = asked | {"other": Other(families, other.window.wide)}
        found = {}
        for frame in bucket.look(Look(**asked)):
            found |= self._of(frame, frame.names, bucket, shape, families)
            others = [at for at in range(len(families)) if at != frame.family]
            for part, side in zip(others, frame.aligned, strict=False):
                found |= self._of(side, frame.names, bucket, shape, families, part, frame.keys)
        return found

    def _of(self, frame, names, bucket, shape: Shape, families, part=None, keys=None) -> dict[tuple, Found]:
        part = frame.family if part is None else part
        starts = families[part].window_start(frame.windows)
        ends = families[part].window_end(frame.windows) if keys is not None else frame.ends_by(families[part])
        known = np.broadcast_to(bucket.coverage.known_since(starts), starts.shape)
        of_rows = names["k0"].take(pa.array(frame.keys if keys is None else keys)).to_pylist()
        rows, found = self.made.results(frame, bucket.coverage.results, families[part]), {}
        for key, start, end, since, row in zip(
            of_rows, starts.tolist(), ends.tolist(), known.tolist(), rows, strict=True
        ):
            if row is not None and (row[0] or keys is None):
                place, shown = (key, part, start, end), Found(row, since if since > max(start, -FOREVER) else None)
                # Count windows that are not full may have the same records so far.
                assert place not in found or (self.kind.window.counts and found[place] == shown), "there once"
                found[place] = shown
        return found

    # --- comparing ---

    def check(self, rng: random.Random) -> dict[tuple, Found]:
        """Compare the windows of the query, then some of them by key and start, and the latest of each key."""
        found = self.ask()
        wanted = self.open()
        self.compare(found, wanted, self.all() | wanted)
        self.chosen(rng, found)
        if self.made.content == PARTIALS:
            self.latest(found, self.all() | wanted)
            self.others(rng, wanted)
        return found

    @property
    def by_end(self) -> int:
        """How much later the records of a window are than those of one that holds its start: none, or a microsecond."""
        return int(self.kind.window.family.closed_right)

    def others(self, rng: random.Random, wanted: dict[tuple, list]) -> None:
        """Windows that the query does not have: whole ones, and all ends of those that are not, if asked for."""
        other = self.kind.other(rng)
        if other is None:
            return
        right = self.windows_of(other)
        first = min((start for _, _, start, _ in wanted), default=FOREVER)
        whole = self.ask(other)
        kept = {place for place in right if place[2] >= first and all(map(self.kind.is_kept, place[2:]))}
        self.compare(whole, {place: right[place] for place in kept}, right)
        self.made.seen["looked up, other"] += len(whole)
        every = self.ask(other, incomplete=True)
        assert {place: each for place, each in every.items() if each.known is None}.keys() == whole.keys()
        for place, (row, known) in every.items():
            if known is not None:
                since = [record for record in right[place] if record.time >= known + self.by_end]
                self.made.seen["looked up, in part"] += 1
                if self.made.merged == -FOREVER:
                    assert place[2] < known < place[3]
                    self.assert_row(row, since, place)
                else:  # merged slices of windows that were removed may have some of the earlier records
                    assert place[2] < known <= place[3]
                    assert len(since) <= row[0] <= len(right[place])

    def open(self) -> dict[tuple, list]:
        """The windows that accept records, with these, by (key, part, start, end)."""
        found = {}
        for part, expected in enumerate(self.made.call.parts):
            for key, windows in expected.windows.items():
                some = self.kind.parts[part].looked_up(windows, expected.held.get(key, []), expected.accepts)
                found |= {(key, part, *place): held for place, held in some.items()}
        return self.led(found)

    def all(self) -> dict[tuple, list]:
        """All windows of the records that were accepted, of kinds that time decides; else those that are open."""
        return self.windows_of(self.kind) if self.kind.timed else self.open()

    def windows_of(self, kind: Kind) -> dict[tuple, list]:
        """All windows of a kind, with the records that were accepted."""
        found = {}
        for (key, held), (number, part) in product(self.made.call.accepted().items(), enumerate(kind.parts)):
            found |= {(key, number, *place): some for place, some in part.definition(in_order(held)).items()}
        return found

    def led(self, windows: dict[tuple, list]) -> dict[tuple, list]:
        """Those in the rows of windows side by side: a window is in the row of the longest one of its end."""
        if not self.kind.window.wide:
            return windows
        (lead,) = (at for at, part in enumerate(self.kind.parts) if part in self.kind.leads)
        rows = {(key, end) for key, part, _, end in windows if part == lead}
        shown = {place: held for place, held in windows.items() if held or place[1] == lead}
        return {place: held for place, held in shown.items() if (place[0], place[3]) in rows}

    def compare(self, found: dict[tuple, Found], wanted: dict[tuple, list], right: dict[tuple, list]) -> None:
        """All of `wanted` must be found; whatever is found must be as in `right`."""
        missed = {place for place in wanted.keys() - found.keys() if place[2] >= self.made.fine}
        assert not missed, sorted(missed, key=str)
        assert found.keys() <= right.keys(), sorted(found.keys() - right.keys(), key=str)
        for (key, part, *place), (row, known) in found.items():
            assert known is None, (key, part, place, known)
            self.assert_row(row, right[key, part, *place], (key, part, *place))
            self.made.seen["looked up"] += 1
            self.made.seen["looked up, closed"] += (key, part, *place) not in wanted

    def assert_row(self, row, held, place):
        assert row[0] == len(held), place
        self.made.assert_row(row, held, ("lookup", *place))

    def chosen(self, rng: random.Random, every: dict[tuple, Found]) -> None:
        """Some keys, a range of starts, and the latest of each key are what they are among all."""
        keys = rng.sample([None, 1, 2, 99], 2)
        of_keys = self.ask(keys=pa.table([pa.array(keys, pa.int64())], names=["k0"]))
        assert of_keys == {place: each for place, each in every.items() if place[0] in keys}
        if self.kind.window.by_time and self.kind.window.closes and not self.kind.window.wide and every:
            low, high = sorted(rng.choices([place[2] for place in every], k=2))
            low += rng.choice([0, 1])
            some = self.ask(starts=(low, high))
            assert some == {place: each for place, each in every.items() if low <= place[2] <= high}

    def latest(self, every: dict[tuple, Found], right: dict[tuple, list]) -> None:
        """The latest window of a key, of each kind of windows, is the first one of all that holds its newest record."""
        found = self.ask(latest=True)
        assert found.keys() <= every.keys()
        leads = {part for part, kind in enumerate(self.kind.parts) if kind in self.kind.leads}
        if self.kind.window.wide and self.kind.timed and lack(self.made.call.parts):
            # Columns of added windows are null in the first rows.
            assert {key for key, *_ in found} == {key for key, *_ in every}
        else:
            of_found, of_every = ({place[:2] for place in each if place[1] in leads} for each in (found, every))
            assert of_found == of_every
        for place, (row, _) in found.items():
            self.assert_row(row, right[place], place)  # doubles are added up in another order
        newest = {key: max(record.time for record in held) for key, held in self.made.call.accepted().items()}
        for place in found if self.kind.timed and not self.kind.window.wide else ():
            at = newest[place[0]] - self.by_end
            holding = [each for each in every if each[:2] == place[:2] and each[2] <= at < each[3]]
            assert place == min(holding, key=lambda each: each[2:], default=place)


def readable(label: int, store: Store) -> ReadOnly:
    """A store that has what a lookup reads of another one."""
    needed = pages_looked_up(header_of(label, store.text))
    return ReadOnly(f"bucket {label}", store.text, {name: store.pages[name] for name in needed})
