"""What a trigger means is decided in `slicing/triggers`: other code calls its methods, and seldom reads its fields."""

import ast
from pathlib import Path

from slicing.triggers.accumulation import Accumulation
from slicing.triggers.trigger import QUESTIONS, Trigger

PACKAGE = Path(__file__).resolve().parents[2] / "slicing"
DECIDED = {"triggers", "explain"}  # rooms that may ask: the triggers themselves, and what prints what they do
LINES, FILES = 15, 5
PASSED_ON = {
    "needs",
    "columns",
    "reads",
    "signals",
    "ends",
    "purges",
    "stored",
    "remembered",
    "meaning",
    "accumulation",
    "reads_clock",
    "fires_short",
}  # answers of a trigger, which say what it wants of others
FIELDS = {name for name, value in vars(Trigger).items() if isinstance(value, property)} | set(Trigger.__annotations__)
FIELDS = (FIELDS | set(Accumulation.__annotations__)) - PASSED_ON
HOLDERS = {"trigger", "emission", "accumulation", "mode"}


def last_name(node):
    return getattr(node, "attr", getattr(node, "id", ""))


def branches(source):
    """The lines that read a field of a trigger or of its accumulation mode, or look for a question among those asked.

    A kind of windows that declares which questions it cannot answer names them as keys.
    """
    for node in ast.walk(ast.parse(source)):
        is_field = isinstance(node, ast.Attribute) and node.attr in FIELDS and last_name(node.value) in HOLDERS
        is_question = isinstance(node, ast.Compare | ast.BinOp) and any(
            last_name(each).lower() in QUESTIONS and last_name(each).isupper() and "asks" in ast.unparse(node)
            for each in ast.walk(node)
        )
        if is_field or is_question:
            yield node.lineno


def test_few_lines_outside_of_triggers_ask_what_a_trigger_is():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE)
        if name.parts[0] not in DECIDED and (lines := set(branches(path.read_text(encoding="utf-8")))):
            found[str(name)] = sorted(lines)
    assert sum(map(len, found.values())) <= LINES, found
    assert len(found) <= FILES, found


def test_branches_are_found():
    assert {"asks", "fires_once", "fires_late", "by_clock", "tombstones", "retracts"} <= FIELDS
    source = "if self.trigger.fires_once:\n    x = CHANGED in asks\ny = trigger.wait(1)\nz = {CHANGED: 1}\n"
    assert sorted(branches(source)) == [1, 2]
    assert [*branches("a = query.trigger.accumulation.retracts and not mode.option")] == [1, 1]
