"""Rows spilled to a temporary file if they do not fit into memory: written once, read as needed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO

import numpy as np

from slicing.aggregates.record_file import temporary
from slicing.content.block import Block, Shape
from slicing.content.codec import decode, encode
from slicing.content.sizes import memory, parts


@dataclass(frozen=True)
class Piece:
    """A part of the spilled rows, of slices `first` up to but not including `end`, and its position in the file."""

    first: int
    end: int
    size: int  # bytes in memory
    records: int
    at: int  # the offset in the file, in bytes
    length: int  # bytes in the file


class SpillFile:
    """A temporary file of pieces of at most about a page each, removed when it is closed.

    Raises TooLarge if a single row is too large.
    """

    def __init__(self, shape: Shape):
        self.shape = shape
        self._file: IO[bytes] | None = None

    def put(self, block: Block) -> list[Piece]:
        """Write rows, sorted by slice, and return their pieces. Rows of one slice and key keep their order."""
        if not len(block):
            return []
        in_order = block.take(np.argsort(block.index, kind="stable"))
        return [self._write(page) for page in parts(self.shape, in_order)]

    def _write(self, page: Block) -> Piece:
        self._file = self._file or temporary()
        data = encode(self.shape, page)
        at = self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        first, end, size = int(page.index[0]), int(page.index[-1]) + 1, memory(self.shape, page)
        return Piece(first, end, size, int(page.records.sum()), at, len(data))

    def read(self, piece: Piece) -> Block:
        """Return the rows of a piece."""
        assert self._file is not None
        self._file.seek(piece.at)
        return decode(self.shape, self._file.read(piece.length))

    def close(self) -> None:
        """Remove the file."""
        if self._file:
            self._file.close()
