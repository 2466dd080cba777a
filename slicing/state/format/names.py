"""Check the field names of a stored header: unknown fields are never ignored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

from slicing.errors import StateMismatch


def check_names(
    what: str, version: int, found: Mapping[str, Any], known: Set[str], optional: Collection[str] = ()
) -> None:
    """Raise StateMismatch if a field is unknown, or if a field that is not optional is missing."""
    if found.keys() == known:
        return
    faults = [f"it has `{name}`, which is not known" for name in sorted(found.keys() - known)]
    faults += [f"it does not have `{name}`" for name in sorted(known - found.keys() - set(optional))]
    if faults:
        raise StateMismatch(
            f"the {what} of the checkpoint is not one of format {version} as this version has it: {'; '.join(faults)}. "
            "Continue with the version that wrote it, or start with a new checkpoint."
        )
