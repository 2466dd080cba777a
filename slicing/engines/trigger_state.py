"""Migrate the state of a trigger for (key, window) pairs that another trigger has written.

::

    stored    EveryNth, seen bigint, high double       fields are matched by name
    wanted    EveryNth, seen bigint, low double        `high` is removed, `low` begins at 0

The conditions of `early` name a field by what it means, so that it begins anew under a condition that means another::

    stored    early(), fired bigint, counted bigint, since bigint                  a clock
    wanted    early(), fired bigint, counted bigint, since event time bigint       begins at "never"

Headers of earlier versions do not have the fields of `early`. Its memory then continues as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field
from slicing.content.block import Block, Shape, concat
from slicing.content.memory import newest, with_memory
from slicing.errors import StateMismatch
from slicing.state.format.changes import ANOTHER_FIELD, changed_fields
from slicing.state.format.header import Header
from slicing.state.format.list_names import EARLY, MEMORY, STATE, VALUES, parse
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.own import remembered
from slicing.triggers.trigger import Trigger

OF_PAIRS = (MEMORY, STATE, VALUES)
"""The lists with a row for each pair."""


def check_state(head: Header, trigger: Trigger) -> None:
    """Check the stored fields of the trigger; cached blocks of another trigger become invalid.

    Raises StateMismatch for a field that has another type.
    """
    if head.trigger == trigger.stored:
        return
    head.nonce = ""
    for name, held, wanted in changed_fields(head.trigger, trigger.stored):
        raise StateMismatch(
            f"`{name}` in the state of `{trigger.stored[0]}` is {held} in the checkpoint, and {wanted} now. "
            f"{ANOTHER_FIELD}"
        )


def renew_state(pages: Pages, shape: Shape, trigger: Trigger) -> None:
    """Convert the stored state to the fields of the trigger; the state of another trigger is removed."""
    stored, wanted = pages.head.trigger, trigger.stored
    if stored == wanted:
        return
    for name in [name for name in pages.head.lists if f"{EARLY} " in name and parse(name).which in OF_PAIRS]:
        if stored and stored[:1] == wanted[:1]:
            _renew(pages, name, shape, trigger)
        elif stored:
            pages.remove(pages.head.lists.pop(name))
    pages.head.trigger = wanted


def _renew(pages: Pages, name: str, shape: Shape, trigger: Trigger) -> None:
    of, which = trigger.remembered, parse(name).which
    assert of is not None, "it has a state"
    stored, prefix = _fields(pages.head.trigger), name.removesuffix(f" {which}")
    by_place = remembered([Field(f"f{place}", field.kind) for place, field in enumerate(stored)], _unmerged)
    old = PageLists(pages, prefix, with_memory(shape, by_place.kernel))
    rows = newest(concat(old.shape, old.read(which)))
    named = dict(zip([field.name for field in stored], rows.partials[0], strict=True))
    blank = of.of_none(len(rows))
    fields = [named.get(field.name, new) for field, new in zip(_fields(trigger.stored), blank, strict=True)]
    renewed: Block = of.telling(replace(rows, partials=[fields]))
    old.drop(which)
    PageLists(pages, prefix, with_memory(shape, of.kernel)).append(of.which, renewed)


def _fields(stored: Sequence[str]) -> list[Field]:
    """Return the fields of `Trigger.stored`. A name may have spaces, and types have none."""
    return [Field(*text.rpartition(" ")[::2]) for text in stored[1:]]


def _unmerged(parts: Sequence[Array], starts: Array) -> Sequence[Array]:
    raise AssertionError("rows are read, and not merged")
