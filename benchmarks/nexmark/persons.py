"""New persons."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark import ids as known
from benchmarks.nexmark import texts

FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
BYTES = 200


def persons(random: np.random.Generator, ids: np.ndarray, times: pa.Array, seed: int) -> pa.StructArray:
    """Return the persons with these event ids."""
    count = len(ids)
    first, last = texts.one_of(random, FIRST, count), texts.one_of(random, LAST, count)
    column = {
        "id": pa.array(known.last_person(ids) + known.FIRST_PERSON),
        "name": pc.binary_join_element_wise(first, last, " "),
        "emailAddress": _emails(random, count),
        "creditCard": _cards(random, count),
        "city": texts.one_of(random, CITIES, count),
        "state": texts.one_of(random, STATES, count),
        "dateTime": times,
    }
    sizes = 8 + sum(texts.lengths_of(column[name]) for name in ("name", "emailAddress", "creditCard", "city", "state"))
    column["extra"] = texts.padding(random, sizes, BYTES, seed)
    return pa.StructArray.from_arrays(list(column.values()), list(column))


def _emails(random: np.random.Generator, count: int) -> pa.Array:
    name, host = texts.words(random, count, 7), texts.words(random, count, 5)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(name, host, "@"), "com", ".")


def _cards(random: np.random.Generator, count: int) -> pa.Array:
    parts = [f"{number:04d}" for number in range(10_000)]
    return pc.binary_join_element_wise(*(texts.one_of(random, parts, count) for _ in range(4)), " ")
