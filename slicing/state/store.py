"""The interface of the key-value store that holds the pages and the header of a bucket."""

from __future__ import annotations

from typing import Protocol


class Store(Protocol):
    """A key-value store of texts together with one header text. `name` identifies the bucket in messages."""

    @property
    def name(self) -> object:
        """The name of the bucket in messages."""

    def header(self) -> str | None:
        """Return the header, None for a new bucket."""

    def put_header(self, text: str) -> None:
        """Write the header."""

    def get(self, page: str) -> str:
        """Read a page."""

    def put(self, page: str, text: str) -> None:
        """Write a page."""

    def remove(self, page: str) -> None:
        """Remove a page."""


class MemoryStore:
    """A `Store` that lives as long as the object."""

    def __init__(self) -> None:
        self.name = "a bucket in memory"
        self.text: str | None = None
        self.pages: dict[str, str] = {}

    def header(self) -> str | None:
        """Return the header, None before it was written."""
        return self.text

    def put_header(self, text: str) -> None:
        """Write the header."""
        self.text = text

    def get(self, page: str) -> str:
        """Read a page."""
        return self.pages[page]

    def put(self, page: str, text: str) -> None:
        """Write a page."""
        self.pages[page] = text

    def remove(self, page: str) -> None:
        """Remove a page."""
        del self.pages[page]
