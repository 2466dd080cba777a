"""Imports point down. The layers are those of the design; a new module must be given its place here."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = (
    {"slicing.errors", "slicing.slices", "slicing.kinds", "slicing.packing"},
    {"slicing.edges", "slicing.zones", "slicing.cut", "slicing.families", "slicing.several", "slicing.specs"},
    {"slicing.windows", "slicing.durations", "slicing.timed", "slicing.aggregate"},
    {"slicing.laws", "slicing.kernel", "slicing.pairs", "slicing.hashing", "slicing.blocks", "slicing.claims"},
    {"slicing.tracing"},
    {"slicing.trial", "slicing.header"},
    {"slicing.fingerprint"},
    {
        "slicing.assembly",
        "slicing.nodes",
        "slicing.deferring",
        "slicing.trees",
        "slicing.pages",
        "slicing.stripes",
        "slicing.lateness",
    },
    {"slicing.ahead"},
    {"slicing.emission", "slicing.picking", "slicing.recent", "slicing.aside", "slicing.portions"},
    {"slicing.touching", "slicing.costs", "slicing.latest"},
    {"slicing.plan", "slicing.closing", "slicing.changes", "slicing.pending"},
    {"slicing.state", "slicing.eager"},
    {"slicing.mixed"},
    {"slicing.spark"},
    {"slicing.grouping"},
    {"slicing", "slicing.__main__"},
)
COMBINATORS_MAY_IMPORT = {"slicing.aggregate", "slicing.kinds", "slicing.errors", "slicing.hashing", "slicing.windows"}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for package in ("slicing", "combinators") for path in (ROOT / package).rglob("*.py")}


class _RunTime(ast.NodeTransformer):
    """Leaves out what is imported for annotations only."""

    def visit_If(self, node):
        return None if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" else self.generic_visit(node)


def imports(source, name, is_package, modules):
    """The modules that `source` imports, also inside functions; `from a import b` is a.b if that is in `modules`."""
    for node in ast.walk(_RunTime().visit(ast.parse(source))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = name.split(".") if is_package else name.split(".")[:-1]
            start = here[: len(here) + 1 - node.level] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            for alias in node.names:
                member = f"{base}.{alias.name}"
                yield member if member in modules else base


def imports_of(name):
    path = FILES[name]
    found = imports(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", FILES)
    return sorted(set(found) - {name})


def within(name, package):
    return name == package or name.startswith(package + ".")


def layer(name):
    """The number of the layer of a module, or None; all modules of slicing.spark or slicing.tracing share one."""
    place = next((room for room in ("slicing.spark", "slicing.tracing") if within(name, room)), name)
    return next((number for number, names in enumerate(LAYERS) if place in names), None)


def fault(name, imported):
    """Why the module `name` must not import `imported`, or None."""
    top = imported.partition(".")[0]
    if top == "pyspark" and not within(name, "slicing.spark"):
        return "only slicing.spark imports pyspark"
    if top in ("tests", "benchmarks"):
        return "packages do not import tests or benchmarks"
    if within(name, "combinators"):
        if top == "slicing" and imported not in COMBINATORS_MAY_IMPORT:
            return f"combinators import only {', '.join(sorted(COMBINATORS_MAY_IMPORT))}"
        return None
    if top == "combinators" and name != "slicing.__main__":
        return "only slicing.__main__ knows both packages"
    if top == "slicing":
        to = layer(imported)
        if to is None:
            return "no such module in LAYERS"
        if to > layer(name):
            return f"layer {layer(name)} must not import layer {to}"
    return None


@pytest.mark.parametrize("name", sorted(FILES))
def test_imports_point_down(name):
    if within(name, "slicing"):
        assert layer(name) is not None, f"{name} has no layer: give it its place in LAYERS"
    faults = {imported: why for imported in imports_of(name) if (why := fault(name, imported))}
    assert not faults


def test_no_cycles():
    graph = {name: {imported for imported in imports_of(name) if imported in FILES} for name in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("modules import each other: " + " <- ".join(error.args[1]))


def test_every_file_is_seen():
    assert {"slicing", "slicing.errors", "slicing.aggregate"} <= FILES.keys()


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("slicing.errors", "slicing.windows"),
        ("slicing.aggregate", "slicing"),
        ("slicing.laws", "slicing.spark.state"),
        ("slicing.spark.stream", "slicing.grouping"),
        ("slicing.grouping", "pyspark.sql"),
        ("slicing.grouping", "combinators"),
        ("slicing.laws", "slicing.unknown"),
        ("combinators.sums", "slicing.blocks"),
        ("combinators.sums", "slicing"),
        ("combinators.sums", "pyspark"),
    ],
)
def test_upward_imports_are_faults(name, imported):
    assert fault(name, imported)


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("slicing.aggregate", "slicing.errors"),
        ("slicing.windows", "slicing.aggregate"),
        ("slicing.spark.stream", "pyspark.sql"),
        ("slicing.spark.stream", "slicing.spark.state"),
        ("slicing", "slicing.grouping"),
        ("slicing.__main__", "combinators"),
        ("combinators.sums", "slicing.kinds"),
        ("combinators.sums", "combinators.counts"),
    ],
)
def test_downward_imports_are_not(name, imported):
    assert fault(name, imported) is None


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import a.c", {"a.c"}),
        ("from a import b, Name", {"a.b", "a"}),
        ("from a.b import Name", {"a.b"}),
        ("from . import b", {"a.b"}),
        ("from .b import Name", {"a.b"}),
        ("def f():\n    if True:\n        import a.b", {"a.b"}),
    ],
)
def test_imports_are_found(source, found):
    assert set(imports(source, "a.c", False, {"a", "a.b", "a.c"})) == found
    assert set(imports(source, "a", True, {"a", "a.b", "a.c"})) == found
