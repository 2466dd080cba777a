"""Public docstrings say what those of `combinators` say: what is returned or done, errors, cost, and an example.

Which names are public is asked of the package; a new one has to come with a docstring of this form.
"""

import ast
import inspect
import re
import textwrap

import pytest

import slicing

BUILDERS = (slicing.Grouped, slicing.Windowed, slicing.FeaturesAt, slicing.Definition)
NO_IMPERATIVE = re.compile(r"(?:The|This|That|Those|A|An|What|Which|Whether|How|One|All|None|`.*|.*s)$")
"""First words of a sentence that names a thing; verbs that end in s are listed below."""
VERBS_IN_S = {"Process", "Pass"}
COSTS = {
    "by_edges", "counting", "cumulating", "hopping", "session", "sliding", "tumbling", "unbounded",
    "on_close", "on_update", "on_change", "early", "describe", "draw", "testing.run",
    "Windowed.aggregate", "Windowed.assemble", "Windowed.buckets", "Windowed.grace", "Windowed.process",
    "FeaturesAt.aggregate", "Definition.lookup", "Definition.lookup_partials", "Definition.changes", "Definition.why",
}  # fmt: skip
"""These decide what a query costs, or read a checkpoint."""


def functions():
    """Public functions, and public methods of what a query is built with, by their names."""
    found = {name: getattr(slicing, name) for name in slicing.__all__}
    found = {name: value for name, value in found.items() if inspect.isfunction(value)}
    laws = {f"laws.{name}": getattr(slicing.laws, name) for name in slicing.laws.__all__}
    found |= {name: value for name, value in laws.items() if inspect.isfunction(value)}
    found["testing.run"] = slicing.testing.run
    for owner in BUILDERS:
        methods = {name: value for name, value in vars(owner).items() if inspect.isfunction(value)}
        found |= {f"{owner.__name__}.{name}": value for name, value in methods.items() if not name.startswith("_")}
    return found


FUNCTIONS = functions()
WITH_SPARK = {
    "advice", "configure", "describe", "late_partials", "late_records", "lateness", "merge_into", "plausible",
    "results", "upsert_into", "Grouped.features_at", "Windowed.process", "Windowed.aggregate", "Windowed.plan",
    "Windowed.explain",
    *(name for name in FUNCTIONS if name.startswith(("FeaturesAt.", "Definition."))),
}  # fmt: skip
"""These need a session or a DataFrame: examples of them are on the pages of docs, which are run."""


def doc_of(name):
    return inspect.getdoc(FUNCTIONS[name]) or ""


def raised(function):
    """The errors of this package that a function itself raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name) and hasattr(slicing.errors, call.func.id)}


def is_imperative(sentence):
    word = sentence.split()[0]
    return word in VERBS_IN_S or not NO_IMPERATIVE.match(word)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_first_sentence_is_imperative_and_fits_a_line(name):
    first, _, rest = doc_of(name).partition("\n")
    assert is_imperative(first), first
    assert first.endswith((".", "`", ")")), f"a sentence on one line: {first}"
    assert not rest or rest.startswith("\n"), "then an empty line"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_that_are_raised_are_named(name):
    missing = {error for error in raised(FUNCTIONS[name]) if error not in doc_of(name)}
    assert not missing


@pytest.mark.parametrize("name", sorted(COSTS))
def test_what_costs_says_how_much(name):
    assert "Cost" in doc_of(name) or "Combines per window" in doc_of(name)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - WITH_SPARK))
def test_what_needs_no_spark_has_an_example(name):
    assert ">>>" in doc_of(name)


@pytest.mark.parametrize("name", slicing.__all__)
def test_every_public_class_is_documented(name):
    value = getattr(slicing, name)
    for member, of in vars(value).items() if inspect.isclass(value) else ():
        if not member.startswith("_") and (inspect.isfunction(of) or isinstance(of, property)):
            assert inspect.getdoc(of), f"{name}.{member}"
    assert inspect.getdoc(value) or not callable(value)


def test_lists_of_names_are_not_stale():
    assert WITH_SPARK | COSTS <= FUNCTIONS.keys()


@pytest.mark.parametrize("sentence", ["The windows.", "What fires.", "Windows of a size.", "`Fieldwise` of these."])
def test_what_names_a_thing_is_no_imperative(sentence):
    assert not is_imperative(sentence)
    assert is_imperative("Return the windows.")
