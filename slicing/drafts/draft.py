"""A call before its columns are found; `slicing.spark.resolution` finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from slicing.aggregates.aggregate import Aggregate, Bound
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.aggregates.results import flat_results
from slicing.column_names import parts_of
from slicing.content.block import Shape
from slicing.drafts.assigned_call import as_sessions
from slicing.drafts.call import Call
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import COUNTS
from slicing.triggers.trigger import Trigger
from slicing.windows.assigned import Assigned
from slicing.windows.families.family import Family
from slicing.windows.window import Window

NO_KEY = Field("(all)", "boolean")


class Draft:
    """What is known of a call before its DataFrame: what holds for streams and bounded input, whatever the columns."""

    def __init__(self, call: Call, is_case_sensitive: Callable[[], bool]):
        prepared = as_sessions(call, call.window) if isinstance(call.window, Assigned) else call
        self.call = replace(prepared, options=replace(prepared.options, late=COUNTS))
        self._is_case_sensitive = is_case_sensitive

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names that differ in case are different names."""
        return self._is_case_sensitive()

    @cached_property
    def trigger(self) -> Trigger:
        """The trigger."""
        return ON_CLOSE

    @cached_property
    def window(self) -> Window:
        """The windows."""
        return self.call.window

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns, as far as they are known."""
        named = (parts_of(key) for key in self.call.keys if isinstance(key, str))
        return tuple(parts[0] for parts in named if len(parts) == 1)

    @cached_property
    def key_fields(self) -> tuple[Field, ...]:
        """The fields of the keys; a placeholder, as their types are unknown."""
        return (NO_KEY,)

    @property
    def result_names(self) -> list[str]:
        """The names of the result columns."""
        if self.call.then is not None:
            return [field.name for field in self.call.then.returns]
        return output_names(self.call.named, self.window)

    @cached_property
    def results(self) -> dict[str, Bound]:
        """The results by name; those inside structs separately, under names such as `candle.open`."""
        return flat_results(self.call.named)

    @cached_property
    def result_kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the results that do not depend on column types."""
        untyped = {name: bound for name, bound in self.results.items() if isinstance(bound.source, Aggregate)}
        return tuple(kernel(name, bound.resolve(())) for name, bound in untyped.items())

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the results; those for windows are unknown."""
        return self.result_kernels

    @cached_property
    def shape(self) -> Shape:
        """The shape of blocks."""
        return Shape(self.window.family, self.key_fields, self.kernels)

    @property
    def families(self) -> Sequence[Family]:
        """The families of the windows."""
        return self.window.family.families


def output_names(named: Mapping[str, object], window: Window) -> list[str]:
    """Return the names of result columns; of aligned windows, one for each window and result."""
    if window.wide:
        return [f"{name}_{each}" for each in window.names or () for name in named]
    return [column for name, bound in named.items() for column in getattr(bound, "names", ()) or (name,)]
