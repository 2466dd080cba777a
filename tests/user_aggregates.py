"""Aggregates as users write them: from docs, Flink's and Kafka's pages, and what is asked again and again.

Each says which of its functions run by rows and a part of the reason; those that say nothing are traced.
"""

import datetime as dt
import math
import operator
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial, reduce

import numpy as np

from slicing import Aggregate

LONG, DOUBLE, BOOLEAN = "bigint", "double", "boolean"
MOST, LEAST = 2**63 - 1, -(2**63)


@dataclass(frozen=True)
class Written:
    """An aggregate for values of these kinds, all above zero if `positive`; `rows` has a reason by function.

    The name "all" stands for all functions. `degree` is that of the values in the floats that are added up.
    """

    aggregate: Aggregate
    kinds: tuple[str, ...] = (LONG,)
    rows: Mapping[str, str] = field(default_factory=dict)
    positive: bool = False
    degree: int = 1


USERS: dict[str, Written] = {}


def add(a, b):
    return a + b


def added(a, b):
    return tuple(x + y for x, y in zip(a, b, strict=True))


def taken(ab, a):
    return tuple(x - y for x, y in zip(ab, a, strict=True))


# Counts and sums.

USERS["count"] = Written(Aggregate(lambda: 0, lambda n: n + 1, add, lambda ab, a: ab - a), ())
USERS["sum"] = Written(Aggregate(lambda: 0, lambda total, v: total + v, add, operator.sub))
USERS["count and total"] = Written(
    Aggregate(
        lambda: (0, 0),
        lambda acc, v: (acc[0] + 1, acc[1] + v),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda a, b: (a[0] - b[0], a[1] - b[1]),
        partial="n long, total long",
    )
)
USERS["fields by zip"] = Written(
    Aggregate(lambda: (0, 0, 0), lambda acc, v: added(acc, (1, v, v * v)), added, taken, ordered=False)
)
USERS["fields by map"] = Written(
    Aggregate(
        lambda: (0, 0),
        lambda acc, v: (acc[0] + 1, acc[1] + abs(v)),
        lambda a, b: tuple(map(operator.add, a, b)),
        lambda a, b: tuple(map(operator.sub, a, b)),
    )
)
USERS["sum of doubles"] = Written(Aggregate(lambda: 0.0, lambda total, v: total + v, add), (DOUBLE,))
USERS["sum from an integer"] = Written(
    Aggregate(lambda: 0, lambda total, v: total + v, add, partial="total double"), (DOUBLE,)
)
USERS["conditional count"] = Written(Aggregate(lambda: 0, lambda n, v: n + (1 if v > 10 else 0), add))
USERS["count of a comparison"] = Written(Aggregate(lambda: 0, lambda n, v: n + (v > 10), add))


def credit_or_debit(acc, v):
    credit, debit = acc
    if v >= 0:
        credit += v
    else:
        debit -= v
    return credit, debit


USERS["credits and debits"] = Written(Aggregate(lambda: (0, 0), credit_or_debit, added, taken))


def clipped(total, v, low=-10, high=10):
    if v < low:
        return total + low
    if v > high:
        return total + high
    return total + v


USERS["clipped sum, branches"] = Written(Aggregate(lambda: 0, clipped, add))
USERS["clipped sum, min and max"] = Written(
    Aggregate(lambda: 0.0, lambda s, v: s + min(max(v, 0.0), 10.0), add), (DOUBLE,)
)


def by_status(acc, status):
    good, redirected, wrong = acc
    if 0 <= status < 30:
        return good + 1, redirected, wrong
    elif 30 <= status < 40:
        return good, redirected + 1, wrong
    return good, redirected, wrong + 1


USERS["counts by status"] = Written(Aggregate(lambda: (0, 0, 0), by_status, added, taken))


def histogram(acc, v):
    a, b, c, d = acc
    if v < -20:
        a += 1
    elif v < 0:
        b += 1
    elif v < 20:
        c += 1
    else:
        d += 1
    return a, b, c, d


USERS["histogram"] = Written(Aggregate(lambda: (0, 0, 0, 0), histogram, added), (DOUBLE,))


def above(threshold):
    return lambda acc, v: (acc[0] + 1, acc[1] + 1) if v > threshold else (acc[0] + 1, acc[1])


USERS["share above a threshold"] = Written(
    Aggregate(lambda: (0, 0), above(25), added, taken, lambda a: a[1] / a[0] if a[0] else None, returns="double")
)
USERS["saturating counter"] = Written(Aggregate(lambda: 0, lambda n, v: min(n + 1, 5), lambda a, b: min(a + b, 5)))
USERS["cents"] = Written(Aggregate(lambda: 0, lambda cents, price: cents + round(price * 100), add), (DOUBLE,))
USERS["tax to the cent"] = Written(Aggregate(lambda: 0.0, lambda t, price: t + round(price * 0.19, 2), add), (DOUBLE,))
USERS["minutes of seconds"] = Written(
    Aggregate(
        lambda: (0, 0),
        lambda acc, s: added(acc, divmod(s, 60)),
        added,
        lower=lambda a: a[0] * 60 + a[1],
        returns="long",
    )
)
USERS["units and price"] = Written(
    Aggregate(lambda: (0, 0.0), lambda acc, n, price: (acc[0] + n, acc[1] + n * price), added), (LONG, DOUBLE)
)
USERS["uptime"] = Written(
    Aggregate(lambda: (0, 0), lambda acc, up: (acc[0] + up, acc[1] + 1), added, taken), (BOOLEAN,)
)
USERS["sum of squares"] = Written(Aggregate(lambda: 0, lambda s, v: s + v**2, add, operator.sub))
USERS["nulls counted"] = Written(
    Aggregate(lambda: (0, 0), lambda acc, v: (acc[0] + 1, acc[1] + (v is None)), added, taken, nulls=True)
)
USERS["null as zero"] = Written(
    Aggregate(lambda: (0, 0), lambda acc, v: (acc[0] + 1, acc[1] + (0 if v is None else v)), added, nulls=True)
)
USERS["Kafka's reduce"] = Written(Aggregate(lambda: 0, operator.add, operator.add, operator.sub))
USERS["a scale by partial"] = Written(
    Aggregate(lambda: 0, partial(lambda scale, acc, v: acc + scale * v, 3), add, partial=("total long"))
)


# Means and moments.

USERS["mean"] = Written(
    Aggregate(
        lambda: (0, 0),
        lambda acc, v: (acc[0] + 1, acc[1] + v),
        added,
        taken,
        lambda a: a[1] / a[0] if a[0] else None,
        returns="double",
    )
)
USERS["mean of doubles"] = Written(
    Aggregate(
        lambda: (0, 0.0),
        lambda acc, v: (acc[0] + 1, acc[1] + v),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda a: None if a[0] == 0 else a[1] / a[0],
        returns="double",
    ),
    (DOUBLE,),
)
USERS["Flink's average"] = Written(
    Aggregate(
        lambda: (0, 0),
        lambda acc, value: (acc[0] + value, acc[1] + 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda acc: float(acc[0]) / acc[1],
        returns="double",
    )
)
USERS["Flink's weighted average"] = Written(
    Aggregate(
        lambda: (0, 0),
        lambda acc, value, weight: (acc[0] + value * weight, acc[1] + weight),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda ab, a: (ab[0] - a[0], ab[1] - a[1]),
        lambda acc: acc[0] // acc[1] if acc[1] != 0 else None,
        returns="bigint",
    ),
    (LONG, LONG),
)


def weighted(acc, price, volume):
    paid, bought = acc
    return paid + price * volume, bought + volume


USERS["weighted mean"] = Written(
    Aggregate(lambda: (0.0, 0.0), weighted, added, lower=lambda a: a[0] / a[1] if a[1] > 0 else None, returns="double"),
    (DOUBLE, DOUBLE),
    positive=True,
)


def welford(acc, x):
    n, mean, m2 = acc
    n += 1
    delta = x - mean
    mean += delta / n
    m2 += delta * (x - mean)
    return n, mean, m2


def chan(a, b):
    n = a[0] + b[0]
    if n == 0:
        return 0, 0.0, 0.0
    delta = b[1] - a[1]
    return n, a[1] + delta * b[0] / n, a[2] + b[2] + delta * delta * a[0] * b[0] / n


USERS["variance, Welford"] = Written(
    Aggregate(lambda: (0, 0.0, 0.0), welford, chan, lower=lambda a: a[2] / a[0] if a[0] else None, returns="double"),
    (DOUBLE,),
    degree=2,
)
USERS["sample deviation, Welford"] = Written(
    Aggregate(
        lambda: (0, 0.0, 0.0),
        welford,
        chan,
        lower=lambda a: math.sqrt(a[2] / (a[0] - 1)) if a[0] > 1 else None,
        returns="double",
    ),
    (LONG,),
    degree=2,
)
USERS["variance of integers"] = Written(
    Aggregate(
        lambda: (0, 0, 0),
        lambda acc, v: (acc[0] + 1, acc[1] + v, acc[2] + v * v),
        added,
        taken,
        lambda a: (a[2] - a[1] * a[1] / a[0]) / a[0],
        returns="double",
    )
)
USERS["root mean square"] = Written(
    Aggregate(
        lambda: (0, 0.0),
        lambda acc, v: (acc[0] + 1, acc[1] + v * v),
        added,
        lower=lambda a: math.sqrt(a[1] / a[0]),
        returns="double",
    ),
    (DOUBLE,),
    degree=2,
)
USERS["geometric mean by logs"] = Written(
    Aggregate(
        lambda: (0, 0.0),
        lambda acc, v: (acc[0] + 1, acc[1] + math.log(v)),
        added,
        lower=lambda a: math.exp(a[1] / a[0]),
        returns="double",
    ),
    (DOUBLE,),
    positive=True,
)
USERS["harmonic mean"] = Written(
    Aggregate(
        lambda: (0, 0.0),
        lambda acc, v: (acc[0] + 1, acc[1] + 1 / v),
        added,
        lower=lambda a: a[0] / a[1] if a[1] else None,
        returns="double",
    ),
    (DOUBLE,),
    positive=True,
)
USERS["mean distance from zero"] = Written(
    Aggregate(
        lambda: (0, 0.0),
        lambda acc, v: (acc[0] + 1, acc[1] + math.fabs(v)),
        added,
        lower=lambda a: a[1] / max(a[0], 1),
        returns="double",
    ),
    (DOUBLE,),
)


def moments(acc, x, y):
    n, sx, sy, sxx, sxy = acc
    return n + 1, sx + x, sy + y, sxx + x * x, sxy + x * y


def slope(acc):
    n, sx, sy, sxx, sxy = acc
    divisor = n * sxx - sx * sx
    if divisor == 0:
        return None
    return (n * sxy - sx * sy) / divisor


USERS["slope of a line"] = Written(
    Aggregate(lambda: (0, 0, 0, 0, 0), moments, added, taken, slope, returns="double"), (LONG, LONG)
)
USERS["covariance"] = Written(
    Aggregate(
        lambda: (0, 0.0, 0.0, 0.0, 0.0),
        moments,
        added,
        lower=lambda a: a[4] / a[0] - (a[1] / a[0]) * (a[2] / a[0]),
        returns="double",
    ),
    (DOUBLE, DOUBLE),
    degree=2,
)


def log_sum(acc, v):
    return together(acc, (v, 1.0)) if acc[1] else (v, 1.0)


def together(a, b):
    if a[1] == 0.0:
        return b
    if b[1] == 0.0:
        return a
    most = max(a[0], b[0])
    return most, a[1] * math.exp(a[0] - most) + b[1] * math.exp(b[0] - most)


USERS["log of a sum of exponentials"] = Written(
    Aggregate(
        lambda: (0.0, 0.0), log_sum, together, lower=lambda a: a[0] + math.log(a[1]) if a[1] else None, returns="double"
    ),
    (DOUBLE,),
)
USERS["zero, low and high"] = Written(
    Aggregate(
        lambda: (0, math.inf, -math.inf, 0.0),
        lambda acc, v: (acc[0] + 1, min(acc[1], v), max(acc[2], v), acc[3] + v),
        lambda a, b: (a[0] + b[0], min(a[1], b[1]), max(a[2], b[2]), a[3] + b[3]),
        lower=lambda a: (a[3] - a[1] - a[2]) / (a[0] - 2) if a[0] > 2 else None,
        returns="double",
    ),
    (DOUBLE,),
)


# Extremes, and what comes with them.

USERS["minimum"] = Written(Aggregate(lambda: math.inf, min, min), (DOUBLE,))
USERS["maximum of integers"] = Written(Aggregate(lambda: LEAST, lambda most, v: max(most, v), max))
USERS["maximum by if"] = Written(
    Aggregate(lambda: LEAST, lambda most, v: v if v > most else most, lambda a, b: b if b > a else a)
)
USERS["range"] = Written(
    Aggregate(
        lambda: (math.inf, -math.inf),
        lambda acc, v: (min(acc[0], v), max(acc[1], v)),
        lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
        lower=lambda a: a[1] - a[0],
        returns="double",
    ),
    (DOUBLE,),
)
USERS["last by time"] = Written(
    Aggregate(lambda: (LEAST, 0), lambda acc, t, v: max(acc, (t, v)), max, lower=lambda a: a[1], returns="long"),
    (LONG, LONG),
)
USERS["last by time, branches"] = Written(
    Aggregate(
        lambda: (LEAST, 0),
        lambda acc, t, v: (t, v) if t > acc[0] or (t == acc[0] and v > acc[1]) else acc,
        lambda a, b: b if b[0] > a[0] or (b[0] == a[0] and b[1] > a[1]) else a,
        lower=lambda a: a[1],
        returns="long",
    ),
    (LONG, LONG),
)
USERS["first by time"] = Written(
    Aggregate(lambda: (MOST, MOST), lambda acc, t, v: min(acc, (t, v)), min, lower=lambda a: a[1], returns="long"),
    (LONG, LONG),
)
USERS["where it was largest"] = Written(
    Aggregate(
        lambda: (-math.inf, LEAST),
        lambda acc, v, place: (v, place) if (v, place) > acc else acc,
        lambda a, b: a if a > b else b,
        lower=lambda a: a[1],
        returns="bigint",
    ),
    (DOUBLE, LONG),
)


def top_two(acc, v):
    first, second = acc
    if v > first:
        return v, first
    if v > second:
        return first, v
    return acc


def top_of_both(a, b):
    return top_two(top_two(a, b[0]), b[1])


USERS["Flink's top two"] = Written(Aggregate(lambda: (LEAST, LEAST), top_two, top_of_both))
USERS["nearest to zero"] = Written(
    Aggregate(
        lambda: (math.inf, math.inf),
        lambda acc, v: min(acc, (abs(v), v)),
        min,
        lower=lambda a: a[1],
        returns="double",
    ),
    (DOUBLE,),
)


# Bits and Booleans.

USERS["mask of flags"] = Written(Aggregate(lambda: 0, lambda mask, v: mask | 1 << (v & 31), operator.or_))
USERS["bits of all"] = Written(Aggregate(lambda: -1, lambda mask, v: mask & v, lambda a, b: a & b))
USERS["checksum"] = Written(Aggregate(lambda: 0, lambda c, v: c ^ v, operator.xor, operator.xor))
USERS["parity"] = Written(Aggregate(lambda: False, lambda odd, v: odd ^ (v % 2 == 1), lambda a, b: a ^ b))
USERS["any"] = Written(Aggregate(lambda: False, lambda seen, v: seen or v, lambda a, b: a or b), (BOOLEAN,))
USERS["all"] = Written(Aggregate(lambda: True, lambda so, v: so and v, lambda a, b: a and b), (BOOLEAN,))
USERS["seen both"] = Written(
    Aggregate(
        lambda: (False, False, 0),
        lambda acc, v: (acc[0] or v > 20, acc[1] or v < -20, acc[2] + 1),
        lambda a, b: (a[0] or b[0], a[1] or b[1], a[2] + b[2]),
        lower=lambda a: a[0] and a[1],
        returns="boolean",
    )
)


def switched(acc, on):
    changes, first, last, known = acc
    if not known:
        return 0, on, on, True
    return changes + (last != on), first, on, True


def switched_on(a, b):
    if not a[3]:
        return b
    if not b[3]:
        return a
    return a[0] + b[0] + (a[2] != b[1]), a[1], b[2], True


USERS["changes of state"] = Written(
    Aggregate(
        lambda: (0, False, False, False), switched, switched_on, ordered=True, lower=lambda a: a[0], returns="long"
    ),
    (BOOLEAN,),
)


# What depends on order, and what decays.


def decayed(acc, t, v):
    return latest(acc, (t, v))


def latest(a, b):
    if a[0] == LEAST:
        return b
    if b[0] == LEAST:
        return a
    if a[0] > b[0]:
        return a[0], a[1] + b[1] * math.exp((b[0] - a[0]) / 10.0)
    return b[0], b[1] + a[1] * math.exp((a[0] - b[0]) / 10.0)


USERS["exponential decay"] = Written(
    Aggregate(lambda: (LEAST, 0.0), decayed, latest, lower=lambda a: a[1], returns="double"), (LONG, DOUBLE)
)


def kadane(a, b):
    return (
        a[0] + b[0],
        max(a[1], a[0] + b[1]),
        max(b[2], a[2] + b[0]),
        max(a[3], b[3], a[2] + b[1]),
    )


USERS["largest stretch"] = Written(
    Aggregate(
        lambda: (0, 0, 0, 0),
        lambda acc, v: kadane(acc, (v, max(v, 0), max(v, 0), max(v, 0))),
        kadane,
        ordered=True,
        lower=lambda a: a[3],
        returns="long",
    )
)
USERS["drawdown"] = Written(
    Aggregate(
        lambda: (-math.inf, math.inf, 0.0),
        lambda acc, v: (max(acc[0], v), min(acc[1], v), max(acc[2], acc[0] - v if acc[0] > v else 0.0)),
        lambda a, b: (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2], a[0] - b[1])),
        ordered=True,
        lower=lambda a: a[2],
        returns="double",
    ),
    (DOUBLE,),
)


def candle(acc, price):
    n, opened, high, low, _ = acc
    if n == 0:
        return 1, price, price, price, price
    return n + 1, opened, max(high, price), min(low, price), price


def candles(a, b):
    if not a[0]:
        return b
    if not b[0]:
        return a
    return a[0] + b[0], a[1], max(a[2], b[2]), min(a[3], b[3]), b[4]


USERS["candle"] = Written(Aggregate(lambda: (0, 0.0, 0.0, 0.0, 0.0), candle, candles, ordered=True), (DOUBLE,))


def streak(a, b):
    length, head, tail, best = a
    return (
        length + b[0],
        length + b[1] if head == length else head,
        tail + b[2] if b[2] == b[0] else b[2],
        max(best, b[3], tail + b[1]),
    )


USERS["longest streak"] = Written(
    Aggregate(
        lambda: (0, 0, 0, 0),
        lambda acc, won: streak(acc, (1, 1, 1, 1) if won else (1, 0, 0, 0)),
        streak,
        ordered=True,
        lower=lambda a: a[3],
        returns="bigint",
    ),
    (BOOLEAN,),
)


def walked(acc, x, y):
    n, first_x, first_y, last_x, last_y, way = acc
    if n == 0:
        return 1, x, y, x, y, 0.0
    return n + 1, first_x, first_y, x, y, way + math.hypot(x - last_x, y - last_y)


def walked_on(a, b):
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    return a[0] + b[0], a[1], a[2], b[3], b[4], a[5] + b[5] + math.hypot(b[1] - a[3], b[2] - a[4])


USERS["way walked"] = Written(
    Aggregate(
        lambda: (0, 0.0, 0.0, 0.0, 0.0, 0.0), walked, walked_on, ordered=True, lower=lambda a: a[5], returns="double"
    ),
    (DOUBLE, DOUBLE),
)
USERS["product modulo a prime"] = Written(
    Aggregate(lambda: 1, lambda acc, v: acc * v % 1_000_003, lambda a, b: a * b % 1_000_003)
)
USERS["rolling hash"] = Written(
    Aggregate(
        lambda: (0, 1),
        lambda acc, v: ((acc[0] * 31 + v) % 65_521, acc[1] * 31 % 65_521),
        lambda a, b: ((a[0] * b[1] + b[0]) % 65_521, a[1] * b[1] % 65_521),
        ordered=True,
        lower=lambda a: a[0],
        returns="long",
    )
)
USERS["last in order"] = Written(
    Aggregate(
        lambda: (0, 0), lambda acc, v: (acc[0] + 1, v), lambda a, b: (a[0] + b[0], b[1] if b[0] else a[1]), ordered=True
    )
)


# What runs by rows, in part or as a whole.

WEIGHTS = {0: 1, 1: 2, 2: 5}
LIMITS = [10, 20]
Point = namedtuple("Point", "n total")


def gcd(a, b):
    while b:
        a, b = b, a % b
    return abs(a)


def asserting(acc, v):
    assert v != 13, "13 is not taken"
    return acc + v


class Weighted:
    """A class with `__call__`, as ported from Java."""

    weight = 2

    def __call__(self, acc, v):
        return acc + self.weight * v


USERS["greatest common divisor"] = Written(
    Aggregate(lambda: 0, math.gcd, math.gcd), rows={"agg": "`gcd`", "combine": "`gcd`"}
)
USERS["greatest common divisor, loop"] = Written(
    Aggregate(lambda: 0, gcd, gcd), rows={"agg": "more than 16 paths", "combine": "more than 16 paths"}
)
USERS["weights of a dict"] = Written(
    Aggregate(lambda: 0, lambda acc, v: acc + WEIGHTS[v % 3], add), rows={"agg": "`WEIGHTS`, a dict"}
)
USERS["a dict in lower"] = Written(
    Aggregate(lambda: 0, lambda n, v: n + 1, add, lower=lambda n: WEIGHTS.get(n, 0), returns="long"),
    rows={"lower": "`WEIGHTS`, a dict"},
)
USERS["limits of a list"] = Written(
    Aggregate(lambda: 0, lambda acc, v: acc + (LIMITS[0] < v < LIMITS[1]), add), rows={"agg": "`LIMITS`, a list"}
)
USERS["an object that is called"] = Written(
    Aggregate(lambda: 0, Weighted(), add), rows={"agg": "a Weighted of tests.user_aggregates"}
)
USERS["digits of a number"] = Written(
    Aggregate(lambda: 0, lambda acc, v: acc + len(str(abs(v))), add), rows={"agg": "makes text of a value"}
)
USERS["loop over a number"] = Written(
    Aggregate(lambda: 0, lambda acc, v: acc + reduce(add, range(v % 5), 0), add), rows={"agg": "`reduce`"}
)
USERS["parity of bits"] = Written(
    Aggregate(lambda: 0, lambda acc, v: acc + bin(v).count("1"), add), rows={"agg": "`bin`"}
)
USERS["maximum from None"] = Written(
    Aggregate(
        lambda: None,
        lambda acc, v: v if acc is None else max(acc, v),
        lambda a, b: a if b is None else b if a is None else max(a, b),
        partial="most long",
    ),
    rows={"all": "`init` returns a NoneType"},
)
USERS["joined text"] = Written(
    Aggregate(lambda: "", lambda acc, v: f"{acc}{v};", add, ordered=True),
    ("string",),
    rows={"all": "no number"},
)
USERS["last status"] = Written(
    Aggregate(lambda: (LEAST, ""), lambda acc, t, s: max(acc, (t, s)), max), (LONG, "string"), rows={"all": "no number"}
)
USERS["count of a word"] = Written(
    Aggregate(lambda: 0, lambda n, word: n + (word == "b"), add, operator.sub), ("string",), rows={"agg": "type string"}
)
USERS["total of decimals"] = Written(
    Aggregate(lambda: Decimal(0), add, add, operator.sub, partial="total decimal(20,2)"),
    ("decimal(10,2)",),
    rows={"all": "no number"},
)
USERS["latest day"] = Written(Aggregate(lambda: dt.date(1, 1, 1), max, max), ("date",), rows={"all": "no number"})
USERS["fields by name"] = Written(
    Aggregate(
        lambda: Point(0, 0),
        lambda acc, v: acc._replace(n=acc.n + 1, total=acc.total + v),
        lambda a, b: Point(a[0] + b[0], a[1] + b[1]),
        partial="n long, total long",
    ),
    rows={"all": "returns a Point"},
)
USERS["numpy's maximum"] = Written(Aggregate(lambda: LEAST, np.maximum, max), rows={"all": "numpy's numbers"})
USERS["truth of text in lower"] = Written(
    Aggregate(lambda: 0, lambda n, v: n + 1, add, lower=lambda n: "many" if n > 2 else "few", returns="string"),
    rows={"lower": "`value string` is no number"},
)
