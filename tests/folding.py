"""Folds a columns aggregate over records by hand, without the framework: `agg`, then neighbours by `combine`."""

import datetime as dt
from decimal import Context

import numpy as np

from slicing.aggregates.fields import decimal_of, numpy_type

EPOCH = dt.datetime(1970, 1, 1)
DAY, MICROSECOND = dt.timedelta(days=1), dt.timedelta(microseconds=1)


def fold(bound, kinds, records):
    """The kind of the result and the result of these records, tuples with one value per column."""
    aggregate = bound.resolve(kinds)
    kept = [record for record in records if aggregate.nulls or None not in record]
    known = sorted({record[0] for record in kept} - {None}) if kinds and is_ranked(kinds[0]) else []
    columns = zip(*kept, strict=True) if kept else [()] * len(kinds)
    values = [physical(column, kind, aggregate, known) for column, kind in zip(columns, kinds, strict=True)]
    with np.errstate(all="ignore"):
        partial = agg(aggregate, len(kept), values) if kept else spread(aggregate, 1)
        while len(leaves(partial)[0]) > 1:
            partial = halve(aggregate, partial)
        lowered = aggregate.lower(partial) if aggregate.lower else partial
    kind = aggregate.results[0].kind
    return kind, decoded(lowered, kind, aggregate, known)


def agg(aggregate, count, values):
    return aggregate.agg(spread(aggregate, count), *values)


def spread(aggregate, count):
    items = aggregate.init() if len(aggregate.fields) > 1 else (aggregate.init(),)
    arrays = []
    for item, field in zip(items, aggregate.fields, strict=True):
        dtype = numpy_type(field.kind)
        arrays.append(np.full(count, item, np.int64 if dtype == np.object_ else dtype))
    return tuple(arrays) if len(arrays) > 1 else arrays[0]


def halve(aggregate, partial):
    arrays = leaves(partial)
    paired = len(arrays[0]) // 2 * 2
    shape = tuple if isinstance(partial, tuple) else (lambda parts: next(iter(parts)))
    joined = aggregate.combine(shape(a[:paired:2] for a in arrays), shape(a[1:paired:2] for a in arrays))
    return shape(np.append(new, old[paired:]) for new, old in zip(leaves(joined), arrays, strict=True))


def leaves(partial):
    return partial if isinstance(partial, tuple) else (partial,)


def is_ranked(kind):
    return kind in ("string", "binary") or decimal_of(kind) is not None


def physical(values, kind, aggregate, known):
    array = viewed(values, kind, aggregate.view, known)
    return np.ma.MaskedArray(array, mask=[value is None for value in values]) if aggregate.nulls else array


def viewed(values, kind, view, known):
    if view == "limbs" and is_ranked(kind):
        scale = decimal_of(kind)[1]
        words = b"".join(int(v.scaleb(scale, Context(80))).to_bytes(16, "little", signed=True) for v in values)
        limbs = np.frombuffer(words, "<u4").reshape(-1, 4).T
        return (*limbs[:3].astype(np.int64), limbs[3].astype(np.int32).astype(np.int64))
    if view == "ranks":
        return np.array([0 if value is None else number(value, kind, known) for value in values], dtype(kind))
    return np.fromiter(values, numpy_type(kind), len(values))


def dtype(kind):
    return np.int64 if numpy_type(kind) == np.object_ else numpy_type(kind)


def number(value, kind, known):
    if is_ranked(kind):
        return known.index(value)
    if kind == "date":
        return (dt.datetime.combine(value, dt.time()) - EPOCH) // DAY
    return (value.replace(tzinfo=None) - EPOCH) // MICROSECOND if kind.startswith("timestamp") else value


def decoded(result, kind, aggregate, known):
    if np.ma.getmaskarray(result)[0]:
        return None
    value = np.ma.getdata(result).tolist()[0]
    if aggregate.view == "ranks" and is_ranked(kind):
        return known[value]
    if kind == "date":
        return (EPOCH + value * DAY).date()
    if kind.startswith("timestamp"):
        return (EPOCH + value * MICROSECOND).replace(tzinfo=dt.UTC if kind == "timestamp" else None)
    return value
