"""One bucket of windows that a function assigns: a key is one of the query together with the window.

::

    record at 7 of ada, in [0 10) and [5 15)      a copy for each window
    keys and rows      ada 0 10:  [0      10)     each key has one interval: rows of a key are one session
                       ada 5 15:       [5      15)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import located
from slicing.content.block import Block, encode_keys
from slicing.content.copies import copies_of, without_copies
from slicing.content.intervals import Ending
from slicing.content.records import Records
from slicing.engines.rows.pairs import WindowPairs
from slicing.engines.sessions.bucket import SessionBucket, intervals
from slicing.engines.values_of_pairs import values_by
from slicing.triggers.lateness import Late
from slicing.triggers.required_delay import FirstEnds


class AssignedBucket(SessionBucket):
    """One bucket of assigned windows."""

    def accept(self, shipped: Sequence[Block]) -> Late[Ending]:
        """Keep the rows of windows that accept records; return and count the late ones.

        A record is counted by the bucket of its first window to end, and, if it is late for all, by that of its last
        one. So `some` may be below 0 here; only the sum over buckets is a number of records.
        """
        firsts, lasts = copies_of(shipped)
        late = super().accept([without_copies(block) for block in shipped])
        ends, begins = late.first_ends.ends, firsts > 0
        is_late = ends <= self._accepting
        for_all = int(lasts[is_late].sum())
        some = int(firsts[is_late].sum()) - for_all
        first_ends = FirstEnds(ends[begins], firsts[begins])
        return replace(late, all=for_all, some=some, copies=late.all, first_ends=first_ends)

    def window_pairs(self, among: str, everything: bool) -> WindowPairs:
        """Return the windows `among` some, with the values of their new records."""
        numbers = partial(self._values_of, np.flatnonzero(self._among(among)))
        return replace(super().window_pairs(among, everything), numbers=numbers)

    def _values_of(self, windows: Array) -> tuple[Array, Array]:
        """Return the values of new records of some windows: the window of each, and the value, as `Candidates` says."""
        sessions = self._merged[0]
        place = np.full(len(sessions) + 1, -1)  # its last item is for records of no open window
        place[windows] = np.arange(len(windows))
        return values_by(self.heard.numbers, lambda records: place[located(self._intervals_of(records), sessions)])

    def _intervals_of(self, records: Records) -> Block:
        """Return the window of each record, as a row without partials but its end."""
        codes, names = encode_keys(records.names)
        rows = Block(records.index, codes, names, np.ones(len(codes), dtype=np.int64), [], [])
        return intervals(self.plain.select(()), self.session, rows)
