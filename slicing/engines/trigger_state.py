"""Migrate the state of a user-defined trigger that another version of the trigger has written.

::

    stored    EveryNth, seen bigint, high double       fields are matched by name
    wanted    EveryNth, seen bigint, low double        `high` is removed, `low` begins at 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field, parse_fields
from slicing.content.block import Block, Shape, concat
from slicing.content.memory import newest, with_memory
from slicing.errors import StateMismatch
from slicing.state.format.changes import ANOTHER_FIELD, changed_fields
from slicing.state.format.header import Header
from slicing.state.format.list_names import STATE, parse
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.own import Own, remembered
from slicing.triggers.trigger import Trigger


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
    if pages.head.trigger == trigger.stored:
        return
    is_same = isinstance(trigger, Own) and pages.head.trigger[:1] == trigger.stored[:1]
    for name in [name for name in pages.head.lists if STATE in name and parse(name).which == STATE]:
        if is_same and isinstance(trigger, Own) and trigger.remembered:
            _renew(pages, name, shape, trigger)
        else:
            pages.remove(pages.head.lists.pop(name))
    pages.head.trigger = trigger.stored


def _renew(pages: Pages, name: str, shape: Shape, trigger: Own) -> None:
    assert trigger.remembered is not None, "it has a state"
    prefix, stored = name.removesuffix(f" {STATE}"), remembered(_fields(pages.head), _unmerged)
    old = PageLists(pages, prefix, with_memory(shape, stored.kernel))
    rows = newest(concat(old.shape, old.read(STATE)))
    named = dict(zip([field.name for field in _fields(pages.head)], rows.partials[0], strict=True))
    blank = trigger.remembered.of_none(len(rows))
    fields = [named.get(field.name, new) for field, new in zip(trigger.stored_fields, blank, strict=True)]
    renewed: Block = trigger.remembered.telling(replace(rows, partials=[fields]))
    old.drop(STATE)
    PageLists(pages, prefix, with_memory(shape, trigger.remembered.kernel)).append(STATE, renewed)


def _fields(head: Header) -> tuple[Field, ...]:
    return parse_fields(", ".join(head.trigger[1:])) if head.trigger[1:] else ()


def _unmerged(parts: Sequence[Array], starts: Array) -> Sequence[Array]:
    raise AssertionError("rows are read, and not merged")
