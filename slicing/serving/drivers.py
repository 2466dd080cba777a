"""The packages by which stores are reached: each is an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from slicing.errors import MissingRequirement


def driver(package: str, store: str, extra: str) -> Any:
    """Return the package that reaches a kind of store. Raises MissingRequirement if it is not installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise MissingRequirement(
            f"slices in {store} are read and written by {package}, which is not installed. Install it: `pip install "
            f'"spark-slicing[{extra}]"`.'
        ) from None
