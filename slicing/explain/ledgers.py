"""Plans without slices of time: of windows whose state is a ledger of rows of keys, and of point-in-time features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import EAGER, is_additive
from slicing.assembly.ranges.window_references import family_of
from slicing.drawing import counted, number
from slicing.explain.costs import MERGING, Cost
from slicing.explain.plan import Plan, ResultPlan, columns, combines, size_of
from slicing.triggers.trigger import PAIRS, WAITING
from slicing.windows.assigned import AssignedSessions
from slicing.windows.counting import Counting, CountingFamily
from slicing.windows.families.family import Family
from slicing.windows.lookback import Lookbacks
from slicing.windows.session import SESSION, Session
from slicing.windows.sliding import Sliding, SlidingFamily, Slidings
from slicing.windows.time.durations import show
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

_Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class OfAllLengths(Plan):
    """A plan in which the windows of all lengths have the same rows and costs."""

    @property
    def assemblies(self) -> tuple[ResultPlan, ...]:
        """The plan of each result, which is the same for all lengths."""
        numbers = range(len(self.shape.kernels))
        return tuple(replace(self._assembly(0, number), windows="") for number in numbers)


@dataclass(frozen=True)
class LedgerPlan(OfAllLengths):
    """A plan whose figures count rows of the state."""

    _is_timed = False
    _own_bytes: ClassVar[int]
    """The bytes of a row without the partials of its results."""
    _unit: ClassVar[str] = "record"
    """What reads and writes rows."""
    _held: ClassVar[str] = "rows"
    """What the process keeps between micro-batches."""
    _kept: ClassVar[str] = "rows kept, at most"
    _total: ClassVar[str]
    """What has `state_bytes_per_key`."""

    @property
    def has_log(self) -> bool:
        """Whether rows of a dirty set or a retraction log are stored in addition to those of the results."""
        return False

    @property
    def eager(self) -> Plan:
        """The plan for comparison: each record reads, updates and writes the stored value of its key."""
        return replace(self, trees=(EAGER,) * len(self.trees))

    @property
    def per_record(self) -> Cost:
        """The maximum rows read and written per key with new records: appended, and rewritten when half are void."""
        if self.trees[0] == EAGER:
            return Cost(1, 1)
        return Cost(2, 2) + (Cost(2, 2) if self.has_log else Cost(0, 0))

    @property
    def per_window(self) -> Cost:
        """No cost: an emitted row costs no more than its records."""
        return Cost(0, 0)

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated bytes of the state of a key with an open window, before compression; 0 for bounded input."""
        if not self.streaming:
            return 0
        rows = 2 * (sum(each.partial_bytes for each in self.assemblies) + self._own_bytes)
        return rows + (2 * self._own_bytes if self.has_log else 0)

    def _costs(self) -> str:
        head = ("rows of a key", "this plan", "eager plan")
        if not self.streaming:
            return columns([head, *self._of_bounded()])
        names = f"per {self._unit}, at most", "  if small pages are merged, more", f"  {self._held} held by the process"
        ours = self.per_record, MERGING, Cost(0, self.per_record.writes)
        rows = zip(names, map(str, ours), self._of_eager(), strict=True)
        return columns([head, *rows, *self._of_windows()])

    def _of_bounded(self) -> _Rows:
        """The lines about bounded input."""
        return [(f"per {self._unit}, at most", "1 through the shuffle", self._of_eager()[0]), *self._of_windows()]

    def _of_eager(self) -> tuple[str, str, str]:
        """The costs of the eager plan: per record, of merging small pages, and with rows held by the process."""
        each = str(self.eager.per_record)
        return each, str(Cost(0, 0)), each

    def _of_windows(self) -> _Rows:
        """The lines about windows."""
        raise NotImplementedError

    def _state(self) -> str:
        total = f"about {size_of(self.state_bytes_per_key)} per key{self._total}"
        return columns([("state per key", self._kept, "size"), *self._of_state()]) + f"\n{total}"

    def _of_state(self) -> _Rows:
        """The lines about stored rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class SessionPlan(LedgerPlan):
    """The plan of sessions, which are merged. A row holds the records of a key at one time, or overlapping ones."""

    _own_bytes = 28  # start and end (8 bytes each), code of the key (4), count of records (8)
    _held = "open sessions"
    _total = " with an open session, before compression"

    @property
    def session(self) -> Session:
        """The session window of the query."""
        assert isinstance(self.windows, Session)
        return self.windows

    @property
    def has_log(self) -> bool:
        """Whether the state has a retraction log of emitted sessions."""
        return not self.options.trigger.fires_once

    @property
    def shuffled(self) -> str:
        """The output of the first stage, in words."""
        ordered = any(kernel.aggregate.ordered for kernel in self.shape.kernels)
        late_by_record = self.streaming and self.session.late_by != SESSION
        if self.options.trigger.ends:
            return "a partial for each key and time, which an end may part, and the times of ends"
        if self.session.longest is not None:
            return "a partial for each key and time, as all records decide where a session is cut"
        if ordered or late_by_record:
            same = "key, time and gap" if self.session.gap is None else "key and time"
            why = "late ones are separated after the shuffle" if late_by_record else "order is kept"
            return f"a partial for each {same}: {why}"
        return "a partial for each sub-session of an input partition"

    def _shape(self) -> list[tuple[str, str]]:
        return [("shuffled", self.shuffled)]

    def _of_windows(self) -> _Rows:
        if not self.streaming:
            return []
        return [("per session", "1 combine for each of its rows but one", "1 combine for each of its records")]

    def _of_state(self) -> _Rows:
        kept, own = "2 rows for each open session", f"{self._own_bytes} bytes"
        is_split = self.options.trigger.ends or self.session.longest is not None
        results = "2 rows for each time of an open session" if is_split else kept
        rows: _Rows = [(each.name, results, each.size) for each in self.assemblies]
        rows += [("ends", "2 rows for each end of an open session", own)] if self.options.trigger.ends else []
        return rows + ([("retraction log", kept, own)] if self.has_log else [])


@dataclass(frozen=True)
class SlidingPlan(LedgerPlan):
    """The plan of windows that begin or end at the times of records. A row holds the records of a key at one time."""

    _own_bytes = 20  # time (8 bytes), code of the key (4), count of records (8)
    _total = " and time, before compression"

    @property
    def longest(self) -> SlidingFamily:
        """The longest windows of the query."""
        return family_of(self.shape)

    @property
    def per_record(self) -> Cost:
        """The maximum rows read and written per record: read once per process, and rewritten once with its page."""
        return Cost(1, 1) if self.trees[0] == EAGER else Cost(1, 2)

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated state bytes per distinct time of a key within the difference; 0 for bounded input."""
        if not self.streaming:
            return 0
        return sum(each.partial_bytes for each in self.stored) + self._own_bytes - self._once_in_a_row

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        return "asked for" if tree == EAGER else "records decide which windows there are"

    def _shape(self) -> list[tuple[str, str]]:
        windows = "2 for each distinct time of a key at most" if self.longest.right else "1 for each time of a key"
        lengths = [f", of {counted(len(self.windows.calls), 'length')}"] if self.windows.wide else []
        return [
            ("exist", "".join([windows, *lengths])),
            ("shuffled", f"a partial for each key and time, floored to {show(self.longest.advance)}"),
        ]

    def _of_eager(self) -> tuple[str, str, str]:
        each, merging, held = super()._of_eager()
        return f"{each} for each of its windows", merging, f"{held} for each of its windows"

    def _of_windows(self) -> _Rows:
        return [
            (
                f"per window of m times: {each.name}",
                "0 combines" if is_additive(each.kernel) else "2 log2(m) combines at most",
                "none",
            )
            for each in self.stored
        ]

    def _of_state(self) -> _Rows:
        times = f"1 row for each time of the last {show(self.longest.size - self.longest.advance)}"
        return [
            (each.name, f"fields of {each.host}" if each.host else times, "" if each.host else each.size)
            for each in self.assemblies
        ]


@dataclass(frozen=True)
class CountingPlan(LedgerPlan):
    """The plan of count windows. A row holds the new records of a key in one slice, or a single record."""

    _own_bytes = 36  # number of the slice and of its first record (8 bytes each), clock (8), key (4), record count (8)
    _kept = "kept, at most"
    _total = " before compression, just before a window is full"

    @property
    def keeps_records(self) -> bool:
        """Whether rows are single records, because an aggregate has no `combine`."""
        return EAGER in self.trees

    @property
    def family(self) -> CountingFamily:
        """The family of the windows, over slices or, if records are kept, over single records."""
        assert isinstance(self.shape.family, CountingFamily)
        return self.shape.family.by_record if self.keeps_records else self.shape.family

    @property
    def per_record(self) -> Cost:
        """The maximum rows read and written per key with new records: appended, and rewritten when half are void."""
        return Cost(2, 2)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row before compression."""
        own = self.record_bytes if self.keeps_records else sum(each.partial_bytes for each in self.assemblies)
        return own + self._own_bytes

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated bytes of a stream's state for a key just before a window is full; 0 for bounded input."""
        return 2 * self.family.longest * self.row_bytes if self.streaming else 0

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        if tree != EAGER:
            return "slices of so many records"
        return "no `combine`" if kernel.aggregate.combine is None else "beside one that is"

    def _eager(self) -> str:
        return f"records are kept, and each window folds its own, {self.family.longest:,} at most"

    def _shape(self) -> list[tuple[str, str]]:
        slices = f"n = {self.family.longest:,} per window, of {counted(self.family.unit, 'record')}"
        return [
            ("ratio", f"R = {number(self.ratio)} windows per record"),
            ("slices", slices),
            ("shuffled", f"records in their order, about {self.record_bytes} bytes each"),
        ]

    def _of_bounded(self) -> _Rows:
        return [("per record", "1 through the shuffle", "1 through the shuffle"), *self._of_windows()]

    def _of_eager(self) -> tuple[str, str, str]:
        return str(self.per_record), str(MERGING), str(Cost(0, self.per_record.writes))

    def _of_windows(self) -> _Rows:
        return [(f"per window: {each.name}", self._per_window(each), self._folds) for each in self.assemblies]

    @property
    def _folds(self) -> str:
        assert isinstance(self.shape.family, CountingFamily)
        return f"{counted(self.shape.family.size_in_records, 'record')} folded"

    def _per_window(self, each: ResultPlan) -> str:
        if each.tree == EAGER:
            return self._folds
        return "added, without combines" if is_additive(each.kernel) else combines(each)

    def _of_state(self) -> _Rows:
        rows, what = counted(2 * self.family.longest, "row"), "records" if self.keeps_records else "partials"
        return [(what, rows, f"{self.row_bytes} bytes, about")]


@dataclass(frozen=True)
class TotalsPlan(LedgerPlan):
    """The plan of totals of keys on a stream. A row holds the records of a key in one micro-batch."""

    _own_bytes = 20  # clock of the last record (8 bytes), code of the key (4), count of records (8)
    _unit = "micro-batch"
    _held = "totals"
    _kept = "kept, at most"
    _total = " before compression"

    @property
    def has_log(self) -> bool:
        """Whether the state has a dirty set of keys, or record counts for a trigger."""
        return bool(self.options.trigger.asks & {WAITING, PAIRS})

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        return "it never closes"

    def _tree(self, each: ResultPlan) -> str:
        return "totals"

    def _shape(self) -> list[tuple[str, str]]:
        return [("shuffled", "a partial for each key of an input partition")]

    def _of_windows(self) -> _Rows:
        return [("per emitted row", "1 combine", "1 combine for each record since")]

    def _of_state(self) -> _Rows:
        rows: _Rows = [(each.name, "2 rows", each.size) for each in self.assemblies]
        return rows + ([("dirty set", "2 rows", f"{self._own_bytes} bytes")] if self.has_log else [])


_PLANS: dict[type[Window], type[Plan]] = {
    AssignedSessions: SessionPlan,
    Counting: CountingPlan,
    Session: SessionPlan,
    Sliding: SlidingPlan,
    Slidings: SlidingPlan,
}


def plan_type_of(window: Window, streaming: bool) -> type[Plan]:
    """Return the type of plan. On bounded input, an unbounded window has one slice instead of running totals."""
    if isinstance(window, Unbounded) and streaming:
        return TotalsPlan
    return _PLANS.get(type(window), Plan)


ADDED, FOUND, JOINED = "running totals", "without combines", "ranges"
"""How results come from the rows of a window: by one subtraction, by `results_of_runs`, or from runs of 2, 4, 8, ..."""
_COSTS = {ADDED: "1 subtraction", FOUND: "no combines", JOINED: "log2(m) combines, 2 log2(m) at worst"}
_REASONS = {
    ADDED: "exact `invert`",
    FOUND: "a value counts where a window has it first",
    JOINED: "joined from nodes of 2, 4, 8 ... rows",
}


@dataclass(frozen=True)
class FeaturesPlan(OfAllLengths):
    """The plan of `features_at` and `at`.

    Figures are per spine row and window length; m is the number of times with records.
    """

    def combines(self, number: int) -> str:
        """Return the cost of result `number` per row of the spine and length, as text."""
        return _COSTS[self._method(self.shape.kernels[number])]

    @property
    def _is_known(self) -> bool:
        return isinstance(self.windows, Lookbacks) and bool(self.windows.known)

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        if self._is_known:
            return "joined from nodes of 2, 4, 8 ... rows, in each those known so far: log2(m) combines per partial"
        return _REASONS[self._method(kernel)]

    def _tree(self, each: ResultPlan) -> str:
        return self._method(each.kernel)

    def _method(self, kernel: Kernel) -> str:
        if self._is_known:
            return JOINED
        if is_additive(kernel):
            return ADDED
        stored = self.shape.kernels if self.sharing is None else self.sharing.kernels(self.shape.kernels)
        return FOUND if kernel.of_results is not kernel and kernel in stored else JOINED

    def _shape(self) -> list[tuple[str, str]]:
        and_known = ", and instant of knowledge" if self._is_known else ""
        return [
            ("shuffled", f"a partial for each key and microsecond with records{and_known}, and the rows of the spine"),
            ("memory", "a bucket at a time: its partials twice, the rows of the spine that ask for them"),
        ]

    def _costs(self) -> str:
        head = ("", "this plan", "a join")
        rows = [
            (
                f"per row of the spine: {each.name}",
                "fields of " + each.host if each.host else self.combines(number),
                "its records",
            )
            for number, each in enumerate(self.assemblies)
        ]
        record = ("per record", "1 through the shuffle", "1 through the shuffle, a copy for each row it is in")
        return columns([head, record, *rows])
