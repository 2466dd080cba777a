"""Decode pages that were written when the query had other results, as if they had the current results.

::

    generation 0   slice, key, records | high low n | mean m2      results 1 and 2
    generation 1   slice, key, records | mean m2 | value           results 2 and 3
    a page of generation 0 is read as  | mean m2 | init()

The additional columns of an engine are the last columns in every generation.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from slicing.aggregates.arrays import Partials
from slicing.content.block import Block, Shape, schema_of_rows
from slicing.content.codec import decode_columns
from slicing.content.packing import from_text
from slicing.state.format.header import Header


def decode_older(head: Header, generation: int, shape: Shape, text: str) -> Block:
    """Return the rows of a page of an older generation; missing results and fields hold `init()`.

    All results of `shape` must have the same content: partials of slices, or partials of windows.
    """
    results = len(shape.kernels) - shape.marks
    ids = [head.generations[head.generation][place] for place in shape.places[:results]]
    content = next(result.content for result in head.results if result.id in ids)
    columns = head.columns(generation, content)
    marks = [field.kind for kernel in shape.kernels[results:] for field in kernel.fields]
    schema = schema_of_rows([field.split(" ", 1)[1] for _, field in columns] + marks)
    arrays, rows = decode_columns(shape, from_text(text), schema)
    stored, of_marks = dict(zip(columns, arrays, strict=False)), iter(arrays[len(columns) :])
    partials: list[Partials] = []
    dictionaries: list[pa.Array | None] = []
    for kernel, number in zip(shape.kernels, ids, strict=False):
        found = [head.column(generation, number, place) for place in range(len(kernel.fields))]
        blank = kernel.spread(len(rows))
        if any(found):
            blanks = kernel.to_arrow(blank, kernel.no_dictionary)
            values = [empty if at is None else stored[at] for at, empty in zip(found, blanks, strict=True)]
            blank, dictionary = kernel.from_arrow(values)
        else:
            dictionary = kernel.no_dictionary
        partials.append(blank)
        dictionaries.append(dictionary)
    for kernel in shape.kernels[results:]:
        found_marks, dictionary = kernel.from_arrow([next(of_marks) for _ in kernel.fields])
        partials.append(found_marks)
        dictionaries.append(dictionary)
    return replace(rows, partials=partials, dictionaries=dictionaries)
