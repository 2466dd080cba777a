"""The packages by which stores are reached: each is an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

from slicing.errors import MissingRequirement

T = TypeVar("T")


def driver(package: str, store: str, extra: str) -> Any:
    """Return the package that reaches a kind of store. Raises MissingRequirement if it is not installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise MissingRequirement(
            f"slices in {store} are read and written by {package}, which is not installed. Install it: `pip install "
            f'"spark-slicing[{extra}]"`.'
        ) from None


def of_a_thread(connection: type[T]) -> type[T]:
    """Return a type of connections that close when their thread or their store is gone; drivers would warn of them.

    The threads of `foreachBatch` are Spark's, which ends them unasked.
    """
    return type("Connection", (connection,), {"__del__": lambda self: self.close()})
