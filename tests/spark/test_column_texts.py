"""The variables of lambdas in the texts of columns, which identities of checkpoints hold."""

import pytest
from pyspark.sql import functions as F

from slicing.column_names import text_of
from slicing.errors import StateMismatch
from slicing.state.format.column_texts import renumbered
from slicing.state.format.fingerprint import Fingerprint

CLASSIC = "aggregate(items, 0, (x_{0}, y_{1}) -> +(x_{0}, y_{1}))"
CONNECT = "aggregate(items, 0, LambdaFunction(x_{0} + y_{1}, x_{0}, y_{1}))"
NESTED = "transform(items, x_{0} -> aggregate(array(x_{0}), 0, (x_{1}, y_{2}) -> +(+(x_{1}, y_{2}), x_{0})))"
NESTED_CONNECT = (
    "transform(items, LambdaFunction("
    "aggregate(array(x_{0}), 0, LambdaFunction(x_{1} + y_{2} + x_{0}, x_{1}, y_{2})), x_{0}))"
)
LITERALS = "filter(items, x_{0} -> and(>(x_{0}, 'x_1 -> x_1'), =(x_{0}, x_1)))"


@pytest.mark.parametrize("text", [CLASSIC, CONNECT, NESTED, NESTED_CONNECT, LITERALS])
def test_the_numbers_of_a_process_do_not_matter(text):
    assert renumbered(text.format(7, 8, 9)) == renumbered(text.format(113, 214, 415))
    assert renumbered(text.format(7, 8, 9)) != text.format(7, 8, 9)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("filter(items, x_8 -> >(x_8, x_1))", "filter(items, x_8 -> >(x_8, x_2))"),  # columns of these names
        ("filter(items, x_8 -> >(x_8, 'x_8'))", "filter(items, x_8 -> >(x_8, 'x_9'))"),  # texts
        ("filter(items, x_8 -> >(x_8, 'x_8'))", "filter(items, x_9 -> >(x_9, x_9))"),
        ("f((x_1, y_2) -> -(x_1, y_2))", "f((x_1, y_2) -> -(y_2, x_1))"),
        ("f(x_1 -> g(y_2 -> +(x_1, y_2)))", "f(x_1 -> g(y_2 -> +(y_2, x_1)))"),
        ("x_1", "x_2"),
        ("+(x_1, y_2)", "+(x_3, y_4)"),
        ("f('it's x_1 -> x_1')", "f('it's x_2 -> x_2')"),
    ],
)
def test_what_differs_otherwise_still_does(one, other):
    assert renumbered(one) != renumbered(other)


def test_texts_without_lambdas_are_untouched():
    for text in (
        "n",
        "x_1",
        "+(n, 1)",
        "concat(a, ' -> ')",
        "`x_1 -> 2`",
        "items.x_1",
        "aggregate(items, 0, (a, x) -> a + x)",
    ):
        assert renumbered(text) == text


def fingerprint(text):
    results = [{"columns": [text], "version": "sum 1", "partial": ["n bigint"]}]
    return Fingerprint({"keys": ["k bigint"], "results": results, "buckets": "1"}, {"families": []})


def test_a_checkpoint_with_the_numbers_of_its_process_goes_on():
    stored = fingerprint(CLASSIC.format(1, 2)).header([])
    wanted = fingerprint(renumbered(CLASSIC.format(55, 56)))
    assert wanted.header_of(stored) is stored
    with pytest.raises(StateMismatch, match="columns of result 1"):
        fingerprint(renumbered(NESTED.format(1, 2, 3))).header_of(stored)


def test_spark_builds_a_column_with_other_numbers_each_time(spark):
    def built():
        return [
            F.aggregate("items", F.lit(0), lambda a, x: a + x),
            F.transform("items", lambda x: F.aggregate(F.array(x), F.lit(0), lambda a, y: a + y + x)),
            F.aggregate("items", F.lit(0), lambda a, x: a + x, lambda a: a * 2),
            F.filter("items", lambda x: x > F.lit("x_1 -> x_1")),
        ]

    first, second = ([text_of(column) for column in built()] for _ in range(2))
    assert all(x != y for x, y in zip(first, second, strict=True))
    assert [*map(renumbered, first)] == [*map(renumbered, second)]
    assert len({*map(renumbered, first)}) == len(first)
