"""Random functions of the operations that are traced: rows and columns have the same results, or fail alike."""

import random
import warnings

import pytest

from slicing.aggregates.aggregate import Aggregate
from tests.oracle import seeds
from tests.tracing import assert_same, both, drawn, float_sums, folded, held, objects, outcome

TYPES = {"bigint": "int", "double": "float", "boolean": "bool"}
_INIT = {"bigint": "0", "double": "0.0", "boolean": "False"}
_CONSTANTS = {
    "bigint": ("0", "1", "2", "-3", "7", "64", "2**53 + 1", "2**63 - 1"),
    "double": ("0.0", "-0.0", "1.0", "0.5", "1e300", "math.inf", "math.nan"),
    "boolean": ("True", "False"),
}


class Source:
    """Random source of expressions over named inputs of known kinds."""

    def __init__(self, choice, inputs):
        self.choice, self.inputs = choice, inputs

    def of(self, kind, depth):
        choice = self.choice
        known = [name for name, own in self.inputs.items() if own == kind]
        if depth <= 0 or choice.random() < 0.15:
            return choice.choice(known) if known and choice.random() < 0.75 else f"({choice.choice(_CONSTANTS[kind])})"
        if choice.random() < 0.12:
            return f"({self.of(kind, depth - 1)} if {self.of('boolean', depth - 2)} else {self.of(kind, depth - 1)})"
        return getattr(self, kind)(depth - 1)

    def number(self, depth):
        return self.of(self.choice.choice(("bigint", "double", "boolean")), depth)

    def bigint(self, depth):
        of, choice = self.of, self.choice
        op = choice.choice(("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "**", "f", "f", "f"))
        if op == "**":
            return f"({of('bigint', depth)} ** {choice.randint(0, 4)})"
        if op in ("<<", ">>"):
            return f"({of('bigint', depth)} {op} ({of('bigint', depth - 1)} % 70 - 2))"
        if op != "f":
            return f"({of('bigint', depth)} {op} {of('bigint', depth)})"
        x = of("bigint", depth)
        return choice.choice(
            (
                f"abs({x})",
                f"(-{x})",
                f"(~{x})",
                f"(+{of('boolean', depth)})",
                f"min({x}, {of('bigint', depth)})",
                f"max({x}, {of('bigint', depth)})",
                f"int({of('double', depth)})",
                f"round({of('double', depth)})",
                f"math.floor({of('double', depth)})",
                f"math.ceil({self.number(depth)})",
                f"math.trunc({of('double', depth)})",
                f"int({of('boolean', depth)})",
                f"divmod({x}, {of('bigint', depth)})[{choice.randint(0, 1)}]",
                f"({of('boolean', depth)} + {of('boolean', depth)})",
                f"sum(({x}, {of('bigint', depth)}, {of('boolean', depth)}))",
            )
        )

    def double(self, depth):
        of, choice = self.of, self.choice
        op = choice.choice(("+", "-", "*", "/", "//", "%", "**", "f", "f", "f"))
        x = of("double", depth)
        if op == "/":
            return f"({self.number(depth)} / {self.number(depth)})"
        if op == "**":
            return f"(abs({x}) ** {choice.choice(('2.0', '0.5', '2', of('double', depth - 1)))})"
        if op != "f":
            return choice.choice((f"({x} {op} {self.number(depth)})", f"({self.number(depth)} {op} {x})"))
        return choice.choice(
            (
                f"abs({x})",
                f"(-{x})",
                f"min({x}, {of('double', depth)})",
                f"max({x}, {of('double', depth)})",
                f"float({self.number(depth)})",
                f"math.sqrt(abs({self.number(depth)}))",
                f"math.sqrt({x})",
                f"math.fabs({self.number(depth)})",
                f"math.copysign({x}, {of('double', depth)})",
                f"math.log({self.number(depth)})",
                f"math.exp({x})",
                f"math.sin({x})",
                f"math.hypot({x}, {of('bigint', depth)})",
                f"round({x}, {choice.randint(0, 3)})",
            )
        )

    def boolean(self, depth):
        of, choice = self.of, self.choice
        op = choice.choice(("<", "<=", ">", ">=", "==", "!="))
        x, y = self.number(depth), self.number(depth)
        b, c = of("boolean", depth - 1), of("boolean", depth - 1)
        return choice.choice(
            (
                f"({x} {op} {y})",
                f"({x} {op} {y})",
                f"({b} and {c})",
                f"({b} or {c})",
                f"(not {b})",
                f"({b} ^ {c})",
                f"({b} & {c})",
                f"bool({x})",
                f"math.isnan({x})",
                f"({of('bigint', depth)} < {of('bigint', depth)} < {of('bigint', depth)})",
                f"(({x}, {b}) < ({y}, {c}))",
                f"isinstance({x}, int)",
            )
        )


def generated(seed):
    """An aggregate of random functions, its source, and the kinds of its values."""
    choice = random.Random(seed)
    kinds = [choice.choice(tuple(TYPES)) for _ in range(choice.randint(1, 2))]
    values = dict(zip("xy", kinds, strict=False))
    fields = [choice.choice(("bigint", "double", "double", "boolean")) for _ in range(choice.randint(1, 3))]
    if set(fields) == {"boolean"}:
        fields[0] = "bigint"
    single = len(fields) == 1

    def partial(name):
        return {name if single else f"{name}[{at}]": kind for at, kind in enumerate(fields)}

    def returned(inputs, depth, sums):
        parts = []
        for kind, (acc, _) in zip(fields, list(inputs.items()), strict=False):
            if sums and choice.random() < 0.6 and kind != "boolean":
                added = Source(choice, values).of(kind, 2)
                # Sums of floats may be put together in another order, so that they are not the same to the bit.
                own = (f"min({acc}, {added})", f"max({added}, {acc})", f"{acc} + {added}", f"{acc} - {added}")
                parts.append(choice.choice(own[: 2 if kind == "double" else 4]))
            else:
                parts.append(Source(choice, inputs).of(kind, depth))
        return parts[0] if single else f"({', '.join(parts)},)"

    init = [_INIT[kind] for kind in fields]
    shown = choice.choice(tuple(TYPES))
    source = {
        "init": f"lambda: {init[0] if single else '(' + ', '.join(init) + ',)'}",
        "agg": f"lambda acc, {', '.join(values)}: {returned({**partial('acc'), **values}, 3, choice.random() < 0.6)}",
        "combine": f"lambda a, b: {returned({**partial('a'), **partial('b')}, 3, False)}",
        "lower": f"lambda a: {Source(choice, partial('a')).of(shown, 3)}",
    }
    if "double" not in fields:
        source["invert"] = f"lambda ab, a: {returned({**partial('ab'), **partial('a')}, 3, False)}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functions = {name: eval(text, {"math": __import__("math")}) for name, text in source.items()}
    ddl = ", ".join(f"f{at} {kind}" for at, kind in enumerate(fields))
    return Aggregate(**functions, partial=ddl, returns=shown, columns=None), source, fields, kinds


def partials(choice, fields, count):
    rows = [tuple(drawn(choice, kind) for kind in fields) for _ in range(count)]
    return [row[0] for row in rows] if len(fields) == 1 else rows


def agree(seed):
    """Compare all functions of a random aggregate; which of them were traced."""
    choice = random.Random(-seed)
    aggregate, source, fields, kinds = generated(seed)
    rows, traced = both(aggregate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = partials(choice, fields, 120), partials(choice, fields, 120)
        if aggregate.invert:
            assert_same(*(outcome(_inverted, k, a, b) for k in (rows, traced)), (seed, source["invert"]))
        pairs = [(x, y) for x, y in zip(a, b, strict=True) if outcome(_combined, rows, [x], [y])[0] == "made"]
        for left, right in ((a, b), tuple(zip(*pairs, strict=True)) or ((), ())):
            assert_same(*(outcome(_combined, k, left, right) for k in (rows, traced)), (seed, source["combine"]))
        fit = [x for x in a if outcome(_lowered, rows, [x])[0] == "made"]
        for some in (a, fit):
            assert_same(*(outcome(_lowered, k, some) for k in (rows, traced)), (seed, source["lower"]))
        # What is multiplied by itself again and again soon has more digits than there is memory.
        longest = 3 if "*" in source["agg"] else 40
        for calm, groups, most in ((False, 80, 3), (True, 80, 3), (True, 5, longest)):
            sizes = [choice.randint(1, most) for _ in range(groups)]
            starts = [sum(sizes[:at]) for at in range(groups)]
            records = [[drawn(choice, kind, calm) for kind in kinds] for _ in range(sum(sizes))]
            onto = choice.choice((None, partials(choice, fields, len(starts))))
            columns = list(zip(*records, strict=True))
            made = [outcome(folded, k, columns, kinds, starts, onto) for k in (rows, traced)]
            assert_same(*made, (seed, source["agg"]), float_sums(traced, kinds))
    return traced


def _combined(kernel, a, b):
    return objects(kernel, kernel.combine(held(kernel, a), held(kernel, b)))


def _inverted(kernel, ab, a):
    return objects(kernel, kernel.invert(held(kernel, ab), held(kernel, a)))


def _lowered(kernel, a):
    columns = [array.to_pylist() for array in kernel.results_to_arrow(held(kernel, a), None)]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("seed", seeds(120, 1000))
def test_generated_functions_agree(seed):
    agree(seed)


def test_most_generated_functions_are_traced():
    kernels = [agree(seed) for seed in range(1000, 1040)]
    counted = sum(len(kernel.by_rows) for kernel in kernels)
    assert counted < 0.35 * 3 * len(kernels), "what is generated is what can be traced"
