"""Imports point down, between rooms and inside them. A new room, or a new file in one, must be given its place here."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each room may import those of the lines above its own, and itself; not its neighbours of the same line.
ROOMS = (
    {"slicing.errors", "slicing.profiling"},
    {"slicing.column_names"},
    {"slicing.windows", "slicing.aggregates"},
    {"slicing.content", "slicing.laws", "slicing.tracing"},
    {"slicing.assembly", "slicing.state"},
    {"slicing.triggers", "slicing.process"},
    {"slicing.options"},
    {"slicing.hints"},
    {"slicing.serving"},
    {"slicing.engines"},
    {"slicing.stages"},
    {"slicing.drafts"},
    {"slicing.drawing"},
    {"slicing.explain"},
    {"slicing.spark"},
    {"slicing.definition"},
    {"slicing.grouping", "slicing.testing"},
    {"slicing.cli"},
    {"slicing", "slicing.__main__", "slicing.calibrate"},
)
# What takes no part in a micro-batch. Other rooms import the package itself, not its modules. Rooms below its own may
# import it too, inside functions: it is loaded when it is used.
DOORS = tuple(f"slicing.{name}" for name in ["hints", "laws", "tracing", "drawing", "explain", "serving", "testing"])
QUERY = ("slicing", "slicing.grouping", "slicing.definition", "slicing.spark.build")
"""What is imported to build a query; stages and engines, which workers import, are among what these import."""
# Inside a room: a name is a module, or a folder with all that is in it. Names of a line may not import each other,
# modules of one folder may.
INSIDE = {
    "slicing.windows": (
        {"slicing.windows.time"},
        {"slicing.windows.families"},
        {"slicing.windows.clock"},
        {"slicing.windows.window"},
        {
            "slicing.windows.lookback",
            "slicing.windows.session",
            "slicing.windows.sets",
            "slicing.windows.unbounded",
        },
        {"slicing.windows.as_of", "slicing.windows.assigned", "slicing.windows.counting", "slicing.windows.sliding"},
        {"slicing.windows.specs"},
    ),
    "slicing.assembly": (
        {"slicing.assembly.large_windows"},
        {"slicing.assembly.results", "slicing.assembly.choice", "slicing.assembly.partitions"},
        {"slicing.assembly.comparing", "slicing.assembly.trees", "slicing.assembly.ranges"},
        {"slicing.assembly.tails"},
        {"slicing.assembly.assembling"},
    ),
    "slicing.state": (
        {"slicing.state.store", "slicing.state.bucket_cache", "slicing.state.format"},
        {"slicing.state.pages"},
        {"slicing.state.lists", "slicing.state.slice_groups"},
        {"slicing.state.ledger", "slicing.state.instants"},
    ),
    "slicing.engines": (
        {
            "slicing.engines.lifecycle",
            "slicing.engines.features",
            "slicing.engines.looking",
        },
        {
            "slicing.engines.pair_memory",
            "slicing.engines.trigger_state",
            "slicing.engines.values_of_pairs",
            "slicing.engines.wide_rows",
        },
        {"slicing.engines.key_counts"},
        {"slicing.engines.stored_pairs"},
        {"slicing.engines.slice_pairs"},
        {"slicing.engines.bucket", "slicing.engines.lateness", "slicing.engines.dirty_set"},
        {"slicing.engines.rows", "slicing.engines.families", "slicing.engines.following"},
        {"slicing.engines.bounded"},
        {
            "slicing.engines.sliced",
            "slicing.engines.sessions",
            "slicing.engines.sliding",
            "slicing.engines.counting",
            "slicing.engines.unbounded",
            "slicing.engines.eager",
        },
        {"slicing.engines.mixed", "slicing.engines.recut", "slicing.engines.shared"},
    ),
    "slicing.stages": (
        {"slicing.stages.labels", "slicing.stages.flat", "slicing.stages.metrics", "slicing.stages.measuring"},
        {
            "slicing.stages.preaggregate",
            "slicing.stages.firings",
            "slicing.stages.not_before",
            "slicing.stages.packed",
        },
        {"slicing.stages.processed", "slicing.stages.stored_states"},
        {"slicing.stages.output"},
        {
            "slicing.stages.sub_sessions",
            "slicing.stages.of_partials",
            "slicing.stages.execution_plan",
            "slicing.stages.as_of",
        },
        {"slicing.stages.support", "slicing.stages.looking", "slicing.stages.signalled"},
        {"slicing.stages.looking_slices", "slicing.stages.looking_as_of"},
        {
            "slicing.stages.sessions",
            "slicing.stages.sliding",
            "slicing.stages.counting",
            "slicing.stages.unbounded",
        },
        {"slicing.stages.assigned"},
        {"slicing.stages.support_of"},
        {"slicing.stages.local_runner"},
    ),
    "slicing.drafts": (
        {"slicing.drafts.call"},
        {"slicing.drafts.assigned_call"},
        {"slicing.drafts.draft"},
        {"slicing.drafts.rules"},
    ),
    "slicing.spark": (
        {
            "slicing.spark.bytecode",
            "slicing.spark.task",
            "slicing.spark.ddl",
            "slicing.spark.versions",
            "slicing.spark.observed",
            "slicing.spark.packing",
        },
        {"slicing.spark.settings", "slicing.spark.checkpoint", "slicing.spark.as_of"},
        {"slicing.spark.requirements", "slicing.spark.describe"},
        {"slicing.spark.advice"},
        {"slicing.spark.columns"},
        {"slicing.spark.late"},
        {"slicing.spark.declared", "slicing.spark.watermarks"},
        {"slicing.spark.names"},
        {"slicing.spark.merging", "slicing.spark.plausible", "slicing.spark.lateness"},
        {"slicing.spark.upserting"},
        {"slicing.spark.progress"},
        {"slicing.spark.prometheus"},
        {"slicing.spark.assigned_columns"},
        {"slicing.spark.window_columns"},
        {"slicing.spark.query"},
        {"slicing.spark.spine", "slicing.spark.resolution", "slicing.spark.as_of_columns"},
        {"slicing.spark.rules"},
        {"slicing.spark.stream", "slicing.spark.bounded"},
        {"slicing.spark.features", "slicing.spark.lookup", "slicing.spark.partials"},
        {"slicing.spark.profiling", "slicing.spark.warm", "slicing.spark.why"},
        {"slicing.spark.lookup_partials", "slicing.spark.lookup_as_of"},
        {"slicing.spark.build", "slicing.spark.check_warm"},
        {"slicing.spark.simulated"},
        {"slicing.spark.serving"},
        {"slicing.spark.check_serving"},
    ),
}
ALONE = {
    "slicing.errors",
    "slicing.column_names",
    "slicing.profiling",
    "slicing.options",
    "slicing.definition",
    "slicing.grouping",
    "slicing",
    "slicing.__main__",
}
ON_SPARK = ("slicing.spark", "slicing.cli")
COMBINATORS_MAY_IMPORT = {
    "slicing.windows.time.durations",
    "slicing.aggregates.aggregate",
    "slicing.aggregates.arrays",
    "slicing.aggregates.arrow",
    "slicing.aggregates.fields",
    "slicing.aggregates.conversions",
    # `by` runs an aggregate inside its own.
    "slicing.aggregates.kernel",
    "slicing.aggregates.kernels",
    "slicing.content.folding",
    "slicing.column_names",
    "slicing.aggregates.ordered_bytes",
    "slicing.aggregates.sorting",
    "slicing.content.hashing",
    "slicing.errors",
    "slicing.hints",
}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for package in ("slicing", "combinators") for path in (ROOT / package).rglob("*.py")}


# What a folder's `__init__` says is a paragraph; these also give names.
PARAGRAPHS = {name for name, path in FILES.items() if path.name == "__init__.py"} - {
    "combinators",
    "slicing",
    "slicing.hints",
    "slicing.laws",
    "slicing.tracing",
    "slicing.drawing",
    "slicing.explain",
    "slicing.serving",
    "slicing.testing",
}


class _Read(ast.NodeTransformer):
    """Leaves out what is imported inside `functions` or for `annotations` only, unless these are asked for."""

    def __init__(self, functions=True, annotations=False):
        self.functions, self.annotations = functions, annotations

    def visit_FunctionDef(self, node):
        return self.generic_visit(node) if self.functions else None

    def visit_If(self, node):
        typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if typing and not self.annotations else self.generic_visit(node)


def imports(source, name, is_package, modules, **read):
    """The modules that `source` imports, see `_Read`; `from a import b` is a.b if that is in `modules`."""
    for node in ast.walk(_Read(**read).visit(ast.parse(source))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = name.split(".") if is_package else name.split(".")[:-1]
            start = here[: len(here) + 1 - node.level] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            for alias in node.names:
                member = f"{base}.{alias.name}"
                yield member if member in modules else base


@cache
def imports_of(name, **read):
    path = FILES[name]
    found = imports(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", FILES, **read)
    return sorted(set(found) - {name})


def within(name, package):
    return name == package or name.startswith(package + ".")


def room(name):
    """The room of a module; what stands alone is a room of its own."""
    return name if name in ALONE else ".".join(name.split(".")[:2])


def level(layers, name):
    """The number of the line of `layers` that has a name, or None."""
    return next((number for number, names in enumerate(layers) if name in names), None)


def is_lazy(name, imported):
    """Whether a module imports a package of `DOORS` from outside, when it is used."""
    outside = imported in DOORS and not within(name, imported)
    return outside and imported not in imports_of(name, functions=False)


def fault(name, imported):
    """Why the module `name` must not import `imported`, or None."""
    top = imported.partition(".")[0]
    if top == "pyspark" and not any(within(name, package) for package in ON_SPARK):
        return f"only {' and '.join(ON_SPARK)} import pyspark"
    if top in ("tests", "benchmarks"):
        return "packages do not import tests or benchmarks"
    if within(name, "combinators"):
        if top == "slicing" and imported not in COMBINATORS_MAY_IMPORT:
            return f"combinators import only {', '.join(sorted(COMBINATORS_MAY_IMPORT))}"
        return None
    if top == "combinators" and not within(name, "slicing.cli"):
        return "only slicing.cli knows both packages"
    return between(name, imported) if top == "slicing" else None


def between(name, imported):
    """Why one module of slicing must not import another, or None."""
    if name in FILES and is_lazy(name, imported):
        return None
    if any(within(imported, door) and imported != door and not within(name, door) for door in DOORS):
        return f"{imported} is behind a door: import {room(imported)}"
    to, here = level(ROOMS, room(imported)), level(ROOMS, room(name))
    if to is None:
        return "no such room in ROOMS"
    if room(imported) != room(name):
        return None if to < here else f"{room(name)} must not import {room(imported)}"
    lines = INSIDE.get(room(name), ())
    if not lines or imported == room(name) or name == room(name):
        return None
    if (there := place(lines, imported)) is None:
        return f"{imported} has no place in INSIDE"
    if there == (own := place(lines, name)):
        return None
    to, here = level(lines, there), level(lines, own)
    return None if to < here else f"{own} must not import {there}"


def place(lines, name):
    """The name in `lines` that a module is, or is inside of, or None."""
    return next((each for names in lines for each in names if within(name, each)), None)


@pytest.mark.parametrize("name", sorted(FILES))
def test_imports_point_down(name):
    if within(name, "slicing"):
        assert level(ROOMS, room(name)) is not None, f"{name} has no room: give it its place in ROOMS"
    if (lines := INSIDE.get(room(name))) and name != room(name):
        assert place(lines, name), f"{name} has no place in INSIDE: give it one"
    faults = {imported: why for imported in imports_of(name) if (why := fault(name, imported))}
    assert not faults


def test_no_cycles():
    """No files have to be read together, not even for annotations."""
    graph = {name: FILES.keys() & imports_of(name, annotations=True) for name in FILES}
    graph = {name: {each for each in found if not is_lazy(name, each)} for name, found in graph.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("modules import each other: " + " <- ".join(error.args[1]))


def test_a_query_is_built_without_the_packages_with_doors():
    found, new = set(), set(QUERY)
    while new:
        found |= new
        new = {each for name in new for each in imports_of(name, functions=False) if each in FILES} - found
    assert {"slicing.stages.execution_plan", "slicing.engines.sliced.bucket"} <= found
    assert not [name for name in found if any(within(name, each) for each in (*DOORS, "slicing.cli"))]


def test_micro_batches_of_ready_made_aggregates_load_none_of_them():
    """A process runs micro-batches, as a worker does, and lists its modules."""
    script = """
        import sys
        import combinators
        from slicing import hopping
        from slicing.stages import local_runner
        from slicing.aggregates.kernels import kernel
        total = kernel("total", combinators.sum("x").resolve(["bigint"]))
        assert local_runner.stream(hopping("2 minutes", advance="1 minute"), [[0], [10**9]], 0).rows
        print(*[name for name in sys.modules if name.startswith("slicing.")])
        from slicing.laws import dry_run
        dry_run(total, ["bigint"])
        assert "slicing.tracing" not in sys.modules
    """
    ran = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = ran.stdout.split()
    assert "slicing.engines.sliced.bucket" in loaded
    assert not [name for name in loaded if any(within(name, each) for each in (*DOORS, "slicing.cli"))]


def test_imports_for_annotations_are_found():
    source = "if TYPE_CHECKING:\n    from a.b import Name"
    assert set(imports(source, "a.c", False, {"a", "a.b"}, annotations=True)) == {"a.b"}
    assert not set(imports(source, "a.c", False, {"a", "a.b"}))


def test_every_file_is_seen():
    assert {"slicing", "slicing.errors", "slicing.windows.time.slices", "slicing.spark.stream"} <= FILES.keys()


def test_every_place_has_its_files():
    there = {room(name) for name in FILES if within(name, "slicing")}
    assert set().union(*ROOMS) == there
    for inside, lines in INSIDE.items():
        assert set().union(*lines) == {place(lines, name) for name in FILES if within(name, inside) and name != inside}


def test_files_of_tests_have_names_of_their_own():
    """They are modules without a package: two of one name cannot be collected together."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert [name for name, count in names.items() if count > 1 and name.startswith("test_")] == []


def test_the_wheel_has_every_package():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    assert sorted(packages) == sorted(name for name, path in FILES.items() if path.name == "__init__.py")


@pytest.mark.parametrize("name", sorted(PARAGRAPHS))
def test_a_room_begins_with_a_paragraph_and_no_code(name):
    (paragraph,) = ast.parse(FILES[name].read_text(encoding="utf-8")).body
    assert isinstance(paragraph, ast.Expr)
    assert isinstance(paragraph.value.value, str)


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("slicing.errors", "slicing.windows.time.slices"),
        ("slicing.windows.time.slices", "slicing.aggregates.fields"),
        ("slicing.aggregates.fields", "slicing.windows.time.slices"),
        ("slicing.aggregates.aggregate", "slicing"),
        ("slicing.laws.dry_runs", "slicing.spark.stream"),
        ("slicing.assembly.ranges.point_lookups", "slicing.state.pages"),
        ("slicing.state.slice_groups", "slicing.assembly.results"),
        ("slicing.content.block", "slicing.engines.sliced.bucket"),
        ("slicing.engines.sliced.bucket", "slicing.explain.plan"),
        ("slicing.engines.sliced.bucket", "slicing.engines.eager.bucket"),
        ("slicing.engines.lateness", "slicing.engines.sliced.index"),
        ("slicing.windows.time.edges", "slicing.windows.families.even"),
        ("slicing.assembly.trees.nodes", "slicing.assembly.ranges.row_runs"),
        ("slicing.stages.preaggregate", "pyspark"),
        ("slicing.spark.stream", "slicing.grouping"),
        ("slicing.spark.columns", "slicing.spark.query"),
        ("slicing.spark.stream", "slicing.spark.unknown"),
        ("slicing.grouping", "slicing.cli.main"),
        ("slicing.grouping", "pyspark.sql"),
        ("slicing.explain.plan", "pyspark.sql"),
        ("slicing.grouping", "combinators"),
        ("slicing.spark.rules", "combinators"),
        ("slicing.laws.dry_runs", "slicing.unknown"),
        ("slicing.aggregates.kernels", "slicing.tracing.kernel"),
        ("slicing.spark.rules", "slicing.laws.dry_runs"),
        ("slicing.windows.window", "slicing.drawing.windows"),
        ("slicing.spark.build", "slicing.explain.plan"),
        ("combinators.sums", "slicing.content.block"),
        ("combinators.sums", "slicing.laws"),
        ("combinators.sums", "slicing"),
        ("combinators.sums", "pyspark"),
    ],
)
def test_upward_imports_are_faults(name, imported):
    assert fault(name, imported)


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("slicing.aggregates.aggregate", "slicing.errors"),
        ("slicing.aggregates.aggregate", "slicing.aggregates.fields"),
        ("slicing.aggregates.kernels", "slicing.tracing"),
        ("slicing.windows.window", "slicing.drawing"),
        ("slicing.engines.sliced.bucket", "slicing.assembly.trees.matrix"),
        ("slicing.engines.sliced.bucket", "slicing.state.pages"),
        ("slicing.triggers.lateness", "slicing.windows.time.slices"),
        ("slicing.spark.stream", "pyspark.sql"),
        ("slicing.spark.stream", "slicing.spark.query"),
        ("slicing.spark.stream", "slicing.engines.sliced.bucket"),
        ("slicing", "slicing.grouping"),
        ("slicing.__main__", "slicing.cli.main"),
        ("slicing.cli.job", "pyspark.sql"),
        ("slicing.cli.results", "combinators"),
        ("combinators.sums", "slicing.aggregates.fields"),
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
