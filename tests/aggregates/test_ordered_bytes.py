"""Values of every type as bytes: the order is that of the values, and the way back gives the same values."""

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from slicing.aggregates.fields import arrow_type, entry_of, is_nested, members_of, result_kind_of
from slicing.aggregates.ordered_bytes import decoded, encoded

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ATOMS = {
    "boolean": lambda rng: rng.random() < 0.5,
    "tinyint": lambda rng: rng.choice([-128, -1, 0, 1, 127]),
    "bigint": lambda rng: rng.choice([-(2**63), -1, 0, 5, 2**63 - 1]),
    "float": lambda rng: rng.choice([-math.inf, -1.5, 0.0, 0.25, 3.0, math.inf]),
    "double": lambda rng: rng.choice([-math.inf, -1e300, -0.5, 0.0, 1e-300, 7.0, math.inf, math.nan]),
    "decimal(38,18)": lambda rng: Decimal(rng.choice([-(10**37), -1, 0, 1, 10**37])).scaleb(-18),
    "string": lambda rng: "".join(rng.choice("\0\1a\xff€") for _ in range(rng.randrange(4))),
    "binary": lambda rng: bytes(rng.choice([0, 1, 2, 255]) for _ in range(rng.randrange(4))),
    "date": lambda rng: dt.date(1970, 1, 1) + dt.timedelta(days=rng.randrange(-9, 9)),
    "timestamp": lambda rng: EPOCH + dt.timedelta(microseconds=rng.randrange(-9, 9)),
    "timestamp_ntz": lambda rng: EPOCH.replace(tzinfo=None) + dt.timedelta(days=rng.randrange(-9, 9)),
}
NESTED = [
    "array<string>",
    "array<array<bigint>>",
    "map<string,double>",
    "map<date,array<binary>>",
    "struct<n:bigint,s:string>",
    "struct<a:array<struct<t:timestamp,d:decimal(38,18)>>,m:map<bigint,string>,b:boolean>",
]


def drawn(rng, kind, nullable=True):
    """A random value of a kind; entries of maps have different keys, in any order."""
    if nullable and rng.random() < 0.2:
        return None
    if members := members_of(kind):
        return {each.name: drawn(rng, each.kind) for each in members}
    if entry := entry_of(kind):
        keys = {drawn(rng, entry[0], nullable=False) for _ in range(rng.randrange(3))}
        return [(key, drawn(rng, entry[1])) for key in rng.sample(sorted(keys), len(keys))]
    if is_nested(kind):
        return [drawn(rng, kind[len("array<") : -1]) for _ in range(rng.randrange(4))]
    return ATOMS[kind](rng)


def order(value):
    """Null first, NaN last, structs by their fields, arrays by their elements, maps by their entries."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, dict):
        return (1, *map(order, value.values()))
    if isinstance(value, (list, tuple)):
        return (1, *map(order, value))
    return (1, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize("kind", [*ATOMS, *NESTED])
def test_bytes_are_in_the_order_of_values(kind):
    rng = random.Random(kind)
    values = [drawn(rng, kind) for _ in range(60)]
    found = encoded(pa.array(values, arrow_type(kind))).to_pylist()
    for a, x in zip(values, found, strict=True):
        for b, y in zip(values, found, strict=True):
            assert (x < y, x == y) == (order(a) < order(b), order(a) == order(b)), (a, b)


@pytest.mark.parametrize("kind", [*ATOMS, *NESTED])
def test_bytes_become_the_values(kind):
    rng = random.Random(kind)
    whole = pa.array([drawn(rng, kind) for _ in range(60)], arrow_type(kind))
    for values in (whole, whole[7:20], whole[:0], whole.take(pa.array([3, None, 3])), pa.nulls(2, whole.type)):
        found = decoded(encoded(values), values.type)
        found.validate(full=True)
        assert found.type == values.type
        assert repr(found.to_pylist()) == repr(values.to_pylist())


def test_kinds_of_nested_types():
    assert result_kind_of("map<String, array<long>>") == "map<string,array<bigint>>"
    with pytest.raises(ValueError, match="`map<string>` is not an atomic type"):
        result_kind_of("map<string>")
