"""Of what results are made, after every micro-batch, against the records so far: by slice, in order, and by node."""

import pyarrow as pa
import pytest
from golden.every_kind import BEGIN, SCENARIOS, SECOND
from oracle import seeds
from test_look import BY_RECORDS, OTHERS, TIMED, Asking, micro_batches

from slicing.assembly.choice import choose
from slicing.assembly.trees.covering import covering
from slicing.engines.looking import Look, Other, over_one_cut
from slicing.explain.why import Why, why_of
from slicing.stages.looking import LookUp

FOUND = [name for name in (*TIMED, *BY_RECORDS) if not name.startswith(("sessions", "counting", "unbounded"))]
FOUND = [name for name in FOUND if SCENARIOS[name][1] in ("combined", "shared")]
FIRST = [name for at, name in enumerate(FOUND) if at % 4 == 0]


def asked_why(line, key, start, other=None):
    """The answers for the windows of a key that start at an instant, by (family, end)."""
    shape = line.execution_plan.shape
    look = Look(keys=pa.table({"k0": pa.array([key], pa.int64())}), starts=(start, start))
    if other is not None:
        families = tuple(part.family.over(shape.family.cut) for part in other.parts)
        look = Look(**{**vars(look), "other": Other(families, other.wide)})
        shape = shape.over(over_one_cut(families))
    texts = {0: line.store.text}
    ask = LookUp(
        line.execution_plan, line.fingerprint, line.emission, line.grace, shape, False, True, None, look, texts
    )  # fmt: skip
    pages = pa.table({"page": [*line.store.pages], "text": [*line.store.pages.values()]})
    found = {}
    for pieces in ask.pieces(pages):
        end = int(pieces.shape.family.window_end(pieces.window))
        number = [*shape.family.families].index(pieces.shape.family)
        known = Why("there", 0, None, {"k": key}, start, end, False)
        assert (number, end) not in found
        found[number, end] = why_of(pieces, known)
    return found


def assert_made_of(found, records, results):
    """A window is made of these records."""
    assert found.records == sum(found.start <= record[0] < found.end for record in records)
    assert found.slices
    before = found.start
    for each in found.slices:
        assert before <= each.start < each.end <= found.end
        before = each.end
        inside = [record for record in records if each.start <= record[0] < each.end]
        assert each.records == len(inside) > 0
        assert 0 <= each.late <= each.records
        so_far = [record for record in records if found.start <= record[0] < each.end]
        assert [each.so_far[name] for name in each.so_far] == results.expected(so_far)[: len(each.so_far)]
    assert "so far" in str(found)
    assert found.results == found.slices[-1].so_far


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.long) for name in FOUND]
)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_a_result_is_made_of_the_records_in_its_slices(name, seed):
    windows = 0
    for at, (line, truth) in enumerate(micro_batches(name, seed)):
        if at % 4 != 3:
            continue
        accepting_after = truth.watermark - truth.grace
        for key, number, start, end in [*line.ask()][::7]:
            found = asked_why(line, key, start)[number, end]
            assert_made_of(found, truth.records[key], truth)
            for each in found.slices:
                if name in TIMED:
                    held = [window for part in line.window.parts for window in part.windows_of(each.start)]
                    assert each.accepts == any(not truth.watermark or stop > accepting_after for _, stop in held)
            for tree in {node.tree for node in found.nodes}:
                nodes = [node for node in found.nodes if node.tree == tree]
                edges = [nodes[0].start, *(node.end for node in nodes)]
                assert edges == [*(node.start for node in nodes), nodes[-1].end]
                assert (edges[0], edges[-1]) == (start, end)
                assert sum(node.records for node in nodes) == found.records
            windows += 1
    assert windows > 2


@pytest.mark.parametrize("name", [f"{windows}, combined, on close" for windows in OTHERS])
def test_a_result_of_windows_that_the_query_does_not_have(name):
    windows = 0
    for at, (line, truth) in enumerate(micro_batches(name, 2)):
        for other in OTHERS[SCENARIOS[name][0]] if at % 4 == 3 else ():
            for key, number, start, end in [*line.ask(other=other)][::5]:
                assert_made_of(asked_why(line, key, start, other)[number, end], truth.records[key], truth)
                windows += 1
    assert windows > 3


@pytest.mark.parametrize("name", [name for name in FOUND if name.startswith("hopping") and "on close" in name][:1])
def test_late_records_are_those_that_came_after_their_slice_was_read(name):
    line = Asking(name)
    size = line.window.size
    line.step([[BEGIN + size - SECOND, 1, 1, "a", SECOND]], 0, 0)
    line.step([[BEGIN + size + SECOND, 1, 2, "b", SECOND]], 0, 0)
    line.step([], (BEGIN + size) // 1000, 0)
    line.step([[BEGIN + size - SECOND, 1, 3, "c", SECOND]], 0, 0)
    held = {place for place in line.ask() if place[2] <= BEGIN + size - SECOND < place[3] and place[0] == 1}
    found = [asked_why(line, 1, start)[number, end] for _, number, start, end in held]
    assert found
    for each in found:
        (own,) = (part for part in each.slices if part.start <= BEGIN + size - SECOND < part.end)
        assert (own.records, own.late) == (2, 1)
        assert each.late == 1


def test_the_nodes_of_a_tree_are_those_that_are_stored():
    """The names by arithmetic are names that the tree has written."""
    name = next(name for name in FOUND if name.startswith("hopping, combined, on close"))
    trees, stored = set(), set()
    for line, _ in micro_batches(name, 3):
        for key, number, start, end in [*line.ask()][::9]:
            found = asked_why(line, key, start)[number, end]
            trees |= {node.tree for node in found.nodes}
            stored |= {node.name.split(" ")[0] for node in found.nodes if node.stored}
    assert {"two_layer", "three_layer"} & trees
    assert stored, "of windows that close next the state has nodes"


@pytest.mark.parametrize("size", range(5, 41))
def test_nodes_cover_a_window_without_gaps(size):
    from slicing import Aggregate, hopping
    from slicing.aggregates.kernels import kernel

    family = hopping(f"{size} seconds", "1 second").family
    most = kernel("most", Aggregate(lambda: 0, max, max, partial="bigint", laws=False))
    assert choose(most, family) == "three_layer"
    for window in range(-50, 50):
        nodes = covering(family, "three_layer", window)
        edges = [node.first for node in nodes] + [nodes[-1].end]
        assert edges == [family.first_slice(window), *(node.end for node in nodes)]
        assert edges[-1] == family.end_slice(window)


def test_every_kind_says_whether_it_can():
    from slicing import session, sliding, tumbling, unbounded
    from slicing.stages.support_of import support_of

    assert [bool(support_of(each).cannot_say_why(("recompute",))) for each in (
        tumbling("1 hour"), sliding("1 minute"), session("1 minute"), unbounded()
    )] == [False, False, True, True]  # fmt: skip
    assert support_of(tumbling("1 hour")).cannot_say_why(("eager",))
