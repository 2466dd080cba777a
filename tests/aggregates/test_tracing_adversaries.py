"""Functions that hide from tracing what it needs to see: they have the results of rows, or are not traced."""

import builtins
import functools
import inspect
import itertools
import math
import operator
import random
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from slicing import Aggregate
from slicing.aggregates import kernels
from slicing.aggregates.rows import RowsKernel
from slicing.laws import dry_run
from slicing.tracing.exact import Calculation
from slicing.tracing.expressions import Graph, Untraceable
from slicing.tracing.folds import UFUNCS
from slicing.tracing.paths import Path, explore
from slicing.tracing.shims import Shim, Shims
from slicing.tracing.showing import by_rows, mode
from slicing.tracing.tracers import Tracer
from tests.tracing import assert_same, drawn, folded, held, objects, outcome


def swallowed_by_name(acc, v):
    try:
        return acc + round(v, ndigits=-2)
    except TypeError:
        return acc + v


def swallowed_by_exception(acc, v):
    try:
        return acc + pow(base=v, exp=2)
    except Exception:
        return acc + v


def swallowed_attribute(acc, v):
    try:
        return acc + int.from_bytes(b"\1", "big")
    except Exception:
        return acc + v


def swallowed_bare(acc, v):
    try:
        return acc + v.bit_length()
    except:  # noqa: E722
        return acc + v


def swallowed_operator(acc, v):
    try:
        return acc + (v & 1.0)
    except BaseException:
        return acc + v


def returned_in_finally(acc, v):
    found = acc + v
    try:
        found = acc + (1 << 70) - (1 << 70) + 2 * v
    finally:
        return found  # noqa: B012


def helper(v):
    try:
        return v.bit_length()
    except:  # noqa: E722
        return 0


def swallowed_in_a_helper(acc, v):
    return acc + helper(v)


def swallowed_in_a_nested_function(acc, v):
    def inner(x):
        try:
            return hash(x) if x > 90 else x.real
        except BaseException:
            return 0

    return acc + sum(inner(x) for x in (v, 1))


def caught_union(acc, v):
    try:
        return acc + (v if isinstance(v, int | float) else 0)
    except Exception:
        return acc


def matched_class(acc, v):
    try:
        match v:
            case int():
                return acc + 2 * v
            case float():
                return acc + v
    except Exception:
        return acc
    return acc


def matched_value(acc, v):
    match v:
        case 1 | 2:
            return acc + 10
        case 3 if acc > 4:
            return acc - 1
    return acc + v


def tracer_attribute(acc, v):
    try:
        return acc + (1 if v.path else 2)
    except Exception:
        return acc + v


def attributed(acc, v):
    try:
        return acc + attributed.factor * v
    except Exception:
        return acc + v


attributed.factor = 5


def maybe_itself(acc, v):
    return acc + (v is (+v if v > 5 else None))


def with_default(acc, v):
    try:
        return acc + min(v, 3, default=0)
    except Exception:
        return acc - v


def keyword_of_math(acc, v):
    try:
        return acc + math.floor(x=v)
    except Exception:
        return acc - v


def text_for_fabs(acc, v):
    try:
        return acc + math.fabs("1.5") * v
    except Exception:
        return acc - v


def text_as_start(acc, v):
    try:
        return acc + v + len(sum((), start=""))
    except Exception:
        return acc - v


ADVERSARIES = {
    **{
        f.__name__: f
        for f in (
            swallowed_by_name,
            swallowed_by_exception,
            swallowed_attribute,
            swallowed_bare,
            swallowed_operator,
            returned_in_finally,
            swallowed_in_a_helper,
            swallowed_in_a_nested_function,
            caught_union,
            matched_class,
            matched_value,
            tracer_attribute,
            attributed,
            maybe_itself,
            with_default,
            keyword_of_math,
            text_for_fabs,
            text_as_start,
        )
    },
    "rounds by name": lambda acc, v: acc + round(v, ndigits=-2),
    "rounds the number by name": lambda acc, v: acc + round(number=v),
    "power by name": lambda acc, v: acc + pow(base=v, exp=2),
    "power with no modulus": lambda acc, v: acc + pow(v, 2, None),
    "power with a modulus": lambda acc, v: acc + pow(v, 2, 7),
    "divmod": lambda acc, v: acc + divmod(v, 7)[1] + divmod(9, 4)[0],
    "divmod of zero": lambda acc, v: acc + divmod(7, v)[0],
    "int": lambda acc, v: acc + int(v) + int("7f", base=16) + 0,
    "int of text": lambda acc, v: acc + int("7", 8) * v,
    "float": lambda acc, v: acc + float(v) + float("1e3"),
    "min by key": lambda acc, v: acc + min((v, 3, -7), key=lambda x: x * x % 11),
    "min by default": lambda acc, v: acc + min((), default=v) + min(x for x in (v, 4) if x > -1000),
    "sum with start": lambda acc, v: sum((v, 1, True), start=acc) + sum([], v) + len(sum([(v,), (1,)], ())),
    "sorted": lambda acc, v: acc + sorted((v, 3, 5))[1],
    "list.sort": lambda acc, v: [items := [v, 3, 5], items.sort(key=lambda x: -x), acc + items[1]][2],
    "walrus": lambda acc, v: acc + (twice := 2 * v) - (3 if twice > 9 else 0),
    "chained": lambda acc, v: acc + v if -5 < v < acc + 50 <= 200 else acc,
    "text of values": lambda acc, v: acc + len(f"{v:>5}"),
    "text of a class": lambda acc, v: acc + len(f"{int}") + v,
    "hash": lambda acc, v: acc + (hash(v) % 7 if v == v else 0),
    "identity": lambda acc, v: acc + (v is v),
    "in a tuple": lambda acc, v: acc + (v in (1, 2, acc)),
    "in a set": lambda acc, v: acc + (v in {1, 2, 3}),
    "a generator expression": lambda acc, v: acc + max(x * x % 13 for x in (v, acc, 3)),
    "an index": lambda acc, v: acc + (1, 2, 3)[v % 3],
    "a dict of classes": lambda acc, v: acc + {int: 2}[int] * v,
    "a class is equal": lambda acc, v: acc + (int == int) * v,  # noqa: E721
}


@pytest.mark.parametrize("init", [0, 0.0], ids=["int", "float"])
@pytest.mark.parametrize("name", ADVERSARIES)
def test_adversaries_come_to_the_same_or_are_not_traced(name, init):
    choice = random.Random(name)
    kind = "double" if isinstance(init, float) else "bigint"
    aggregate = Aggregate(lambda: init, ADVERSARIES[name], lambda a, b: a + b, laws=False)
    made = kernels.kernel(name, aggregate)
    rows = RowsKernel(name, replace(aggregate, columns=False))
    for calm in (True, True, False):
        records = [[drawn(choice, kind, calm) for _ in range(180)]]
        starts = [*range(0, 180, 3)]
        onto = [drawn(choice, kind, calm=True) for _ in starts]
        found = [outcome(folded, k, records, [kind], starts, begun) for begun in (None, onto) for k in (rows, made)]
        sums = (0,) if kind == "double" else ()
        assert_same(*found[:2], name, sums)
        assert_same(*found[2:], name, sums)


CAUGHT = {
    "narrow": ("ZeroDivisionError", True),
    "several": ("(ValueError, OverflowError)", True),
    "assertion": ("AssertionError", True),
    "type": ("TypeError", False),
    "all": ("Exception", False),
    "a tuple with a wide one": ("(ValueError, Exception)", False),
    "base": ("BaseException", False),
    "runtime": ("RuntimeError", False),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_only_exceptions_that_a_dry_run_cannot_raise_may_be_caught(name):
    caught, is_traced = CAUGHT[name]
    scope = {"math": math}
    exec(f"def agg(acc, v):\n try:\n  return acc + 60 // v\n except {caught}:\n  return acc - 1", scope)
    made = kernels.kernel("mine", Aggregate(lambda: 0, scope["agg"], lambda a, b: a + b, laws=False))
    assert (made.traced_agg(["int"]) is not None) == is_traced
    if not is_traced:
        assert "catches" in made.by_rows["agg"]


def test_a_refusal_ends_the_dry_run_whoever_catches_it():
    """Also one that the graph makes, and not only the path."""
    graph = Graph()

    def run(path):
        x = Tracer(path, graph.input("x", 0, "float"))
        with suppress(BaseException):
            x.__and__(x)
        return (x.expr,)

    with pytest.raises(Untraceable, match="on a float"):
        explore(graph, run)


UNSIGNED = {
    "int": "(x=0, /, base=10)",
    "bool": "(x=False, /)",
    "float": "(x=0, /)",
    "min": "(*values, key=None, default=None)",
    "max": "(*values, key=None, default=None)",
    "log": "(x, base=0, /)",
    "hypot": "(*coordinates)",
}
"""Of functions of Python that do not tell their own, in some version."""


def shims():
    shims = Shims(Path(Graph(), []))
    for module in (builtins, math):
        for name, original in vars(module).items():
            shim = shims.of(original)
            if isinstance(shim, Shim):
                yield pytest.param(name, original, shim, id=f"{module.__name__}.{name}")


def shape(signature):
    """How arguments may be given: names count only where they can be given by name."""
    return [
        (p.kind, p.default is not p.empty, "" if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL) else p.name)
        for p in signature.parameters.values()
    ]


@pytest.mark.parametrize(("name", "original", "shim"), [*shims()])
def test_shims_take_what_the_originals_take(name, original, shim):
    try:
        wanted = inspect.signature(original)
    except ValueError:
        scope = {}
        exec(f"def f{UNSIGNED[name]}: pass", scope)
        wanted = inspect.signature(scope["f"])
    assert shape(shim.signature) == shape(wanted)


def test_a_shim_is_called_and_nothing_else():
    path = Path(Graph(), [])
    shim = Shims(path).of(int)
    for use in (
        lambda: shim.from_bytes,
        lambda: shim | float,
        lambda: float | shim,
        lambda: shim == shim,
        lambda: {shim: 1},
        lambda: str(shim),
        lambda: bool(shim),
        lambda: shim[0],
        lambda: isinstance(1, shim),
    ):
        with pytest.raises(Untraceable):
            use()
        assert path.failed


def refusing_second(a, b):
    if b > 1000:
        raise ValueError(f"{b} is too much")
    return a + b


SCOPE = {}
exec(
    "def asserting_second(a, b):\n assert b != 1001\n return a + b", SCOPE
)  # as it is where pytest does not rewrite it


def dividing_by_second(a, b):
    1 / (b - 1001)
    return a + b


def refusing_both(a, b):
    if a - b < -990:
        raise ValueError("apart")
    return min(a, b)


def rounding_second(a, b):
    return a + b if b < 1001 else a + int(b / 0)


GUARDED = [refusing_second, SCOPE["asserting_second"], dividing_by_second, refusing_both, rounding_second]


@pytest.mark.parametrize("init", [0, 0.0], ids=["int", "float"])
@pytest.mark.parametrize("combine", GUARDED, ids=lambda f: f.__name__)
def test_a_guard_of_combine_fails_where_rows_fail_however_runs_are_joined(combine, init):
    inverted = operator.sub if init == 0 and type(init) is int else None
    aggregate = Aggregate(lambda: init, lambda acc, v: acc + v, combine, inverted, laws=False)
    made = kernels.kernel("mine", aggregate)
    rows = RowsKernel("mine", replace(aggregate, columns=False))
    assert made.formulas["combine"] is not None
    partials = [type(init)(at % 7) for at in range(200)]
    partials[151] = type(init)(1001)
    for starts in (np.arange(0, 200, 2), np.arange(0, 200, 5), np.array([0, 3])):
        found = [outcome(reduced, k, partials, starts) for k in (rows, made)]
        assert found[0][0] == "failed"
        assert_same(*found, combine.__name__)
    assert made.combine_ufuncs is None
    calm = [type(init)(at % 7) for at in range(200)]
    assert_same(*(outcome(reduced, k, calm, np.arange(0, 200, 5)) for k in (rows, made)), combine.__name__)


def reduced(kernel, partials, starts):
    return objects(kernel, kernel.reduce(held(kernel, partials), starts))


def test_a_guard_of_invert_keeps_a_running_total_from_a_cumulative_sum():
    def inverted(ab, a):
        if a > ab:
            raise ValueError("more than there is")
        return ab - a

    plain = Aggregate(lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b, lambda ab, a: ab - a)
    assert kernels.kernel("mine", plain).combine_ufuncs == (np.add,)
    assert kernels.kernel("mine", replace(plain, invert=inverted)).combine_ufuncs is None


def with_option(acc, v, *, scale=2):
    return acc + scale * v


def scaled_by(acc, v, scale=2):
    return acc + scale * v


def least(acc, v):
    return acc + min(v, 3)


def through_option(acc, v):
    return with_option(acc, v)


CHANGES = {
    "a default by name": lambda patch: (with_option, lambda: patch.setitem(with_option.__kwdefaults__, "scale", 3)),
    "all defaults by name": lambda patch: (
        with_option,
        lambda: patch.setattr(with_option, "__kwdefaults__", {"scale": 3}),
    ),
    "a default of a function called": lambda patch: (
        through_option,
        lambda: patch.setitem(with_option.__kwdefaults__, "scale", 3),
    ),
    "an argument of partial": lambda patch: changed_partial(patch),
    "a state of partial": lambda patch: set_partial(),
    "a builtin shadowed": lambda patch: (least, lambda: patch.setitem(globals(), "min", max)),
}


def changed_partial(patch):
    function = partial(scaled_by, scale=2)
    return function, lambda: patch.setitem(function.keywords, "scale", 3)


def set_partial():
    function = partial(scaled_by, scale=2)
    return function, lambda: function.__setstate__((scaled_by, (), {"scale": 3}, {}))


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_a_function_sees_is_seen(name, monkeypatch):
    function, change = CHANGES[name](monkeypatch)
    aggregate = Aggregate(lambda: 0, function, lambda a, b: a + b, laws=False)
    made = kernels.kernel("mine", aggregate)
    rows = RowsKernel("mine", replace(aggregate, columns=False))
    records, starts = [[*range(100)]], [*range(0, 100, 2)]
    before = folded(made, records, ["bigint"], starts)
    assert made.traced_agg(["int"]) is not None
    change()
    wanted = folded(rows, records, ["bigint"], starts)
    assert wanted != before
    assert folded(made, records, ["bigint"], starts) == wanted


SIGN = 1


def test_a_change_of_what_combine_sees_ends_cumulative_sums(monkeypatch):
    chosen = Aggregate(
        lambda: 0,
        lambda acc, v: acc + v,
        lambda a, b: a + b if SIGN else a,
        lambda ab, a: ab - a if SIGN else ab,
        laws=False,
    )
    made = kernels.kernel("mine", chosen)
    partials = held(made, [1, 2, 3])
    assert made.sums_fit(partials)
    monkeypatch.setitem(globals(), "SIGN", 0)
    assert not made.sums_fit(partials)


def wrong(op, mend):
    """Calculations in which the operation is at fault: `mend` is given what it should be, and its first argument."""
    original = Calculation._made

    def made(self, expr):
        column = original(self, expr)
        if expr.op == op:
            column.array = mend(column.array, self.of(expr.args[0]).array)
        return column

    return made


FAULTS = {
    "on other partials than `init()`": ("mul", lambda found, x: x, 0, lambda acc, v: 3 * acc + v),
    "on later records of a group": ("mul", lambda found, x: x, 0, lambda acc, v: v + acc * 5 if acc > 7 else v),
    "infinities": ("truediv", lambda found, x: np.where(found > 20, np.inf, found), 0.0, lambda acc, v: acc + v / 2),
    "no infinities": ("mul", lambda found, x: np.where(np.isinf(found), 0.0, found), 0.0, lambda acc, v: acc + v * 2.0),
    "bits of a maximum": ("mul", lambda found, x: np.nextafter(found, 0), 0.0, lambda acc, v: max(acc, v * 3.0)),
    "bits of what is no sum": ("mul", lambda found, x: np.nextafter(found, 0), 0.0, lambda acc, v: v * 3.0 - acc),
    "large sums": ("mul", lambda found, x: np.where(x > 1e15, 7.0, found), 0.0, lambda acc, v: acc + v * 3.0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_traced_form_are_found_when_the_query_is_built(name, monkeypatch):
    op, mend, init, agg = FAULTS[name]
    made = kernels.kernel("mine", Aggregate(lambda: init, agg, lambda a, b: a, laws=False))
    monkeypatch.setattr(Calculation, "_made", wrong(op, mend))
    with pytest.warns(UserWarning, match="`agg` of `mine` is not the same by columns as by rows"):
        dry_run(made, ["double" if isinstance(init, float) else "bigint"])
    assert mode(made) == "rows"


def test_faults_of_joining_runs_are_found_when_the_query_is_built(monkeypatch):
    made = kernels.kernel("mine", Aggregate(lambda: 0, lambda acc, v: acc + v, max, laws=False))
    monkeypatch.setitem(UFUNCS, ("max", "int"), np.minimum)
    with pytest.warns(UserWarning, match="`combine` of `mine` is not the same by columns as by rows"):
        dry_run(made, ["bigint"])


def test_numbers_of_numpy_are_seen_wherever_a_function_returns_them():
    made = kernels.kernel(
        "mine",
        Aggregate(
            lambda: 0.0, lambda acc, v: acc + v if v < 50 else np.float64(v) + acc, lambda a, b: a + b, laws=False
        ),
    )
    dry_run(made, ["double"])
    assert mode(made) == "rows"
    assert "other numbers than Python's own" in by_rows(made)


SUMS = {
    "two of a record": lambda acc, v: acc + v + 1.0 / 3,
    "what cancels out": lambda acc, v: acc + v * 1e16 - v * 1e16,
    "near the end of floats": lambda acc, v: acc + v * 1e306 - v * 1e306,
    "squares": lambda acc, v: acc + v * v,
    "less": lambda acc, v: acc - v,
    "large powers": lambda acc, v: acc + 2.0 ** min(max(v, -900.0), 900.0) if v == v else acc,
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_floats_in_another_order_are_no_fault(name):
    made = kernels.kernel("mine", Aggregate(lambda: 0.0, SUMS[name], lambda a, b: a + b, laws=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dry_run(made, ["double"])
    assert mode(made) == "traced"


def test_partials_of_floats_are_joined_in_another_order_than_rows_join_them():
    """Beside the largest number that is added the difference is small; `columns=False` keeps the order of rows."""
    aggregate, rng, others = Aggregate(lambda: 0.0, lambda acc, v: acc + v, lambda a, b: a + b), random.Random(28), 0
    made = kernels.kernel("mine", aggregate)
    kept = kernels.kernel("mine", replace(aggregate, columns=False))
    for _ in range(60):
        numbers = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(6) for _ in range(200)]
        starts = np.array(sorted({0, *(rng.randrange(200) for _ in range(4))}))
        columns, rows = (reduced(each, numbers, starts) for each in (made, kept))
        runs = [numbers[low:high] for low, high in itertools.pairwise([*starts.tolist(), 200])]
        assert rows == [functools.reduce(operator.add, run) for run in runs]
        for one, other, run in zip(columns, rows, runs, strict=True):
            assert abs(one - other) <= len(run) ** 2 * math.ulp(max(map(abs, run)))
        others += columns != rows
    assert others, "else the docs may promise the order of rows"
