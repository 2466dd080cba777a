"""Digests of the code of functions: equal for the same code, other ones for other code, none for the catalogue."""

import sys
from functools import partial
from textwrap import dedent

import combinators as C
from slicing import Aggregate
from slicing.aggregates.code_digest import are_different, code_digest


def digest(text, **options):
    """That of the aggregate that a text defines, as a module of a user."""
    names = {"__name__": "of_a_user", "Aggregate": Aggregate}
    exec(compile(dedent(text), options.pop("file", "a.py"), "exec"), names)
    return code_digest(names["made"])


SUM = """
def step(acc, n):
    return acc + n * FACTOR

FACTOR = 1
made = Aggregate(lambda: 0, step, lambda a, b: a + b)
"""


def test_the_same_code_elsewhere_has_the_same_digest():
    assert digest(SUM) == digest("\n\n# further down\n" + SUM, file="b.py")
    assert digest(SUM).startswith(f"{sys.version_info.major}.{sys.version_info.minor} ")


def test_other_code_has_another_digest():
    others = [
        SUM.replace("acc + n", "acc - n"),
        SUM.replace("lambda: 0", "lambda: 1"),
        SUM.replace("FACTOR = 1", "FACTOR = 2"),
        SUM.replace("a + b)", "a + b, lambda ab, a: ab - a)"),
        SUM.replace("(acc, n)", "(acc, n, more=1)"),
    ]
    assert len({digest(text) for text in [SUM, *others]}) == len(others) + 1


def test_helpers_and_closures_count():
    helper = "def by(n):\n    return n * {0}\n\nmade = Aggregate(lambda: 0, lambda acc, n: acc + by(n))\n"
    closure = """
    def make(k):
        return Aggregate(lambda: 0, lambda acc, n: acc + n * k, lambda a, b: a + b)
    made = make({0})
    """
    for text in helper, closure:
        assert digest(text.format(2)) == digest(text.format(2))
        assert digest(text.format(2)) != digest(text.format(3))


def test_functions_of_a_reduction_count():
    """Also where all of it is of libraries: reductions of one column differ by nothing else."""
    functions = (min, max, lambda a, b: a * b, lambda a, b: a & b, partial(max, 3))
    digests = [code_digest(C.reduce(function, "x").resolve(("int",))) for function in functions]
    assert len({*digests}) == len(functions)
    assert "" not in digests
    assert digests[0] == code_digest(C.reduce(min, "x").resolve(("int",)))


def test_functions_that_name_each_other_have_a_digest():
    text = "def one(acc, n):\n    return two(acc, n) if n else acc\n\ndef two(acc, n):\n    return one(acc, n - 1)\n\n"
    assert digest(text + "made = Aggregate(lambda: 0, one)")


def test_lower_is_free_and_the_catalogue_has_none():
    lowered = SUM.replace("a + b)", 'a + b, lower=lambda a: a, returns="bigint")')
    assert digest(SUM) == digest(lowered) == digest(lowered.replace("lambda a: a,", "lambda a: -a,"))
    assert code_digest(C.sum("n").resolve(("bigint",))) == ""


def test_digests_of_other_versions_of_python_are_not_compared():
    assert are_different("3.12 ab", "3.12 cd")
    assert not are_different("3.12 ab", "3.13 cd")
    assert not are_different("", "3.12 cd")


def test_partials_and_methods_are_functions_of_a_user():
    text = "from functools import partial\n\ndef add(k, acc, n):\n    return acc + k * n\n\n"
    made = "made = Aggregate(lambda: 0, partial(add, {0}), lambda a, b: a + b)"
    assert digest(text + made.format(2)) == digest(text + made.format(2))
    assert digest(text + made.format(2)) != digest(text + made.format(3))
    alone = Aggregate(int, partial(max), max)
    assert code_digest(alone) == ""


def test_odd_globals_and_functions_without_a_module_do_no_harm():
    text = "around = [1]\naround.append(around)\n\nmade = Aggregate(lambda: 0, lambda acc, n: acc + len(around))\n"
    assert digest(text) == digest(text)
    space = {}
    exec("f = lambda acc, n: acc + n", space)
    assert code_digest(Aggregate(lambda: 0, space["f"]))
