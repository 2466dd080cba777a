"""The benchmarks judge rightly: ratios and goals, the comparison of rows, fits, the files they keep, the page."""

import datetime as dt
import json
import math
import re
import runpy
import statistics
import subprocess
import sys
import types
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial

import pytest

pytest.importorskip("polars", reason="the packages of the group `bench` are not installed")
pytest.importorskip("matplotlib", reason="the packages of the group `bench` are not installed")
pytest.importorskip("duckdb", reason="the packages of the group `bench` are not installed")

from benchmarks import ROOT, kernels, run
from benchmarks.baselines import duckdb, flink, old_commit, polars, polars_results, polars_rolling
from benchmarks.baselines.floor import Floor
from benchmarks.baselines.functions import FourFunctions, Untraceable, Welford
from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons import (
    accounting,
    batch_bytes,
    comparison,
    growth,
    lookup,
    lookup_beside,
    registry,
    since,
    wide,
)
from benchmarks.comparisons.comparison import PROCESSOR, TIME, Check, Comparison
from benchmarks.comparisons.features import DuckDBCheck
from benchmarks.comparisons.old_commit import LINES, Counted, Timed, lines
from benchmarks.comparisons.since import Since
from benchmarks.comparisons.warm import SameRows
from benchmarks.report import asv, floors, guide, page, plots, ratios, results
from benchmarks.report.growth import exponent
from benchmarks.report.tables import markdown
from benchmarks.running import bounded, changed, encoded, resuming, served, session, streams, turns, warm
from benchmarks.running.processes import processor_seconds
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads import served as served_rows
from benchmarks.workloads import workload as workloads
from combinators.catalogue import CATALOGUE, MORE
from slicing import on_change, on_update
from slicing.cli.session import UNLIMITED
from slicing.serving import Reader

FAST, SLOW = Run(2.0, 1_000, 60), Run(30.0, 1_000, 60)


class Checked:
    def __init__(self, text):
        self.text = text

    def difference(self):
        return self.text


EQUAL = (Checked(None), Checked(None))
FASTER = Comparison("Faster", "ours / theirs", lambda: (SLOW, FAST), EQUAL, goal=10.0)
SLOWER = Comparison(
    "Slower", "ours / theirs", lambda: (FAST, replace(FAST, seconds=2.6, records=2_000)), EQUAL, goal=1.2, measure=TIME
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path / "measured")
    return tmp_path / "measured"


def test_faster_is_the_baseline_per_record_over_ours():
    found = FASTER.measured()
    assert (found.ratio, found.reached) == (15.0, True)
    assert not replace(found, ratio=9.9).reached


def test_slower_is_ours_per_record_over_the_baseline():
    found = SLOWER.measured()
    assert found.ratio == pytest.approx(0.65)
    assert found.reached
    assert not replace(found, ratio=1.21).reached


def test_no_ratio_where_a_side_was_stopped():
    found = replace(FASTER, sides=lambda: (replace(SLOW, stopped=True), FAST)).measured()
    assert (found.ratio, found.reached) == (None, None)
    assert "| no ratio |" in markdown([""], [[ratios.short(found)]])
    assert "stopped at 30 s" in page.in_short(found)


def test_no_ratio_where_rows_differ():
    found = replace(FASTER, checks=(Checked(None), Checked("3 rows, not 4"))).measured()
    assert found.ratio is None
    assert "rows differ: 3 rows, not 4" in page.in_short(found)


def test_results_come_back_as_they_were_kept(folder):
    run = replace(FAST, each=((1.5, 10), (2.5, 0)), store="RocksDB", note="a note")
    kept = [
        results.Ratio("A", "a / b", "times faster", None, True, 2.0, None, SLOW, run, "here"),
        results.Point("p", "keys", "10", 10.0, "", run, "here"),
        results.Figure("m", "peak", 5.0, "MiB", 10.0, "here"),
        results.Stages("s", "a", SLOW, replace(run, stages=(("decode", 0.5),)), "here"),
        results.Table("t", "| a |\n| --- |\n| 1 |", "here"),
    ]
    for each in kept:
        results.keep(each)
        results.keep(each)
    assert sorted(map(repr, results.kept())) == sorted(map(repr, kept))
    assert len(list(folder.iterdir())) == len(kept)


@pytest.mark.parametrize("power", [0, 0.5, 1, 2])
def test_exponent_is_the_power(power):
    xs = [1, 10, 60, 360, 10_080]
    assert exponent(xs, [3 * x**power for x in xs]) == pytest.approx(power, abs=1e-12)


def test_exponent_is_that_of_least_squares():
    # Slope of the line through (0, 0), (1, 1), (2, 1) in logarithms: 0.5.
    assert exponent([1, math.e, math.e**2], [1, math.e, math.e]) == pytest.approx(0.5)


@pytest.mark.parametrize(("xs", "ys"), [([], []), ([10], [2]), ([10, 10], [2, 3]), ([1, 10], [0, 5])])
def test_no_exponent_without_a_line(xs, ys):
    assert exponent(xs, ys) is None


POINTS = (*growth.AXES, *growth.CROSSES)
COMPARED = {each.name: each for each in registry.compared()}
OF_ANY = pytest.mark.parametrize("compared", COMPARED.values(), ids=COMPARED)


def test_names_are_unique_and_the_quick_ones_exist():
    names = [each.name for each in registry.benchmarks()]
    assert len(set(names)) == len(names)
    assert set(registry.QUICK) <= set(names)


def test_files_that_come_first_exist():
    folder = ROOT / "benchmarks" / "comparisons"
    assert set(registry.FIRST) <= {path.stem for path in folder.glob("*.py")}


def test_a_file_that_is_added_is_found(tmp_path, monkeypatch):
    """Behind those that have their place, and what has a goal before what has none."""
    source = "from benchmarks.comparisons.day import BENCHMARKS as DAY\nfrom dataclasses import replace\n"
    (tmp_path / "added_by_a_test.py").write_text(f"{source}BENCHMARKS = (replace(DAY[0], name='Added'),)\n")
    monkeypatch.setattr(registry.comparisons, "__path__", [*registry.comparisons.__path__, str(tmp_path)])
    names = [each.name for each in registry.benchmarks.__wrapped__()]
    assert names.index("ChangeSparse") < names.index("Added") < names.index("DayDouble")


def test_the_run_that_warms_up_is_no_point():
    # Runs of the same arguments are shared, so a point with these would be the cold run.
    assert all(point.settings != growth.WARM_UP for point in POINTS)


MIXED = Run(
    2.0, 1_000, 10, each=((1.0, 0), (3.0, 20)), store="RocksDB", state_bytes=8, read_bytes=8, checkpoint_bytes=4.0
)


@pytest.fixture
def without_spark(monkeypatch):
    """Every run takes two seconds; what would run is noted."""
    ran = []

    def run(query, workload, size, advance, *settings):
        ran.append((query, workload.name, size, advance))
        return MIXED

    def of_side(side):
        return run(*vars(side).values())

    monkeypatch.setattr(streams, "run", of_side)
    monkeypatch.setattr(streams, "faster", of_side)
    monkeypatch.setattr(turns, "run", lambda *sides: tuple(map(of_side, sides)))
    monkeypatch.setattr(bounded, "run", run)
    monkeypatch.setattr(changed, "run", lambda workload, size, advance, before, *after: (MIXED,) * len(after))
    monkeypatch.setattr(polars, "run", lambda *window: run("polars", *window))
    monkeypatch.setattr(polars_results, "run", run)
    monkeypatch.setattr(duckdb, "run", lambda *window: run("duckdb", *window, ""))
    monkeypatch.setattr(DuckDBCheck, "difference", lambda check: ran.append(check))
    monkeypatch.setattr(lookup, "timed", lambda keys, *_: (MIXED, MIXED))
    monkeypatch.setattr(lookup_beside, "timed", lambda keys, pause: (MIXED, MIXED))
    monkeypatch.setattr(lookup.OneKey, "difference", lambda check: ran.append(check))
    monkeypatch.setattr(polars_rolling, "run", lambda *window: run("polars", *window, ""))
    monkeypatch.setattr(encoded, "size", lambda workload, *_: MIXED.read_bytes / wide.READS)
    monkeypatch.setattr(warm, "start", lambda *window: run("warm", *window))
    monkeypatch.setattr(warm, "replay", lambda *window: run("replay", *window))
    monkeypatch.setattr(SameRows, "difference", lambda check: ran.append(check))
    monkeypatch.setattr(comparison, "_difference", lambda check: ran.append(check))
    monkeypatch.setattr(since, "_runs", lambda check: ran.append(check) or ((replace(MIXED, worker_mib=9.0),) * 2, ""))
    return ran


@OF_ANY
def test_every_comparison_runs_two_sides_and_checks_rows(compared, without_spark):
    found = compared.measured()
    cuts = [each.workload for each in without_spark if isinstance(each, (Check, SameRows))]
    cuts += [each.cut for each in without_spark if isinstance(each, Since)]
    assert cuts or compared.name.endswith(
        ("Floor", "DuckDB", "OneKey", "OneKeyOf64Partitions", "BesideARunningQuery")
    ), "others compare rows"
    assert all(cut.total < 100_000 for cut in cuts), "rows are compared on a cut"
    # As long as a run is, so long is the fixed cost that the first one takes off; the other one is per byte.
    others = {"PolarsStream": 0.0, "PercentilesPerByte": 24 / (8 * 351)}
    # One query beside three.
    others |= dict.fromkeys(["SeveralEachLong", "SeveralEachDouble", "SeveralSpark", "SlidingLengths"], 3.0)
    others |= {"TailWorst": max(seconds for seconds, _ in MIXED.each) / MIXED.seconds}
    assert found.ratio == pytest.approx(others.get(compared.name, 1.0), rel=0.01)
    assert results.Ratio(**vars(found)) == found


@pytest.mark.parametrize(
    ("name", "baseline", "ours"),
    [
        ("DoubleHour", (Ours("v"), "1 hour"), (Ours("d"), "1 hour")),
        ("FourFunctions", (Ours("v"), "1 hour"), (FourFunctions(), "1 hour")),
        ("FourFunctionsByRow", (Ours("v"), "1 hour"), (Untraceable(), "1 hour")),
        ("Welford", (Ours(more="variance"), "1 hour"), (Welford(), "1 hour")),
        ("DoubleDay", (Ours("v"), "24 hours"), (Ours("d"), "24 hours")),
        ("WideDayDouble", (Ours("d"), "1 hour"), (Ours("d"), "24 hours")),
        ("WideWeekLong", (Ours("v"), "1 hour"), (Ours("v"), "7 days")),
        ("ChangeClose", (Ours(), "1 hour"), (Ours(emission=on_change()), "1 hour")),
        ("FixedCost", (SparkWindow(), "10 seconds"), (Ours(), "1 hour")),
        ("FixedFloor", (Floor(0), "1 hour"), (Ours(), "1 hour")),
        ("UpdateHour", (SparkWindow(), "1 hour"), (Ours(emission=on_update()), "1 hour")),
    ],
)
def test_sides_that_take_turns_are_told_apart(name, baseline, ours, without_spark, monkeypatch):
    def named(*sides):
        assert all(side.batches for side in sides), "they have the micro-batches that are counted"
        return tuple(replace(MIXED, note=repr((side.query, side.size))) for side in sides)

    monkeypatch.setattr(turns, "run", named)
    monkeypatch.setattr(streams, "faster", lambda side: named(side)[0])
    first, second = COMPARED[name].sides()
    assert (first.note.removeprefix("before, alone: "), second.note) == (repr(baseline), repr(ours))


@OF_ANY
def test_no_ratio_of_any_comparison_whose_runs_were_stopped(compared, without_spark, monkeypatch):
    stopped = Run(240.0, 1_000, stopped=True, store="RocksDB")
    for module, name in ((streams, "run"), (streams, "faster"), (bounded, "run"), (warm, "start"), (warm, "replay")):
        monkeypatch.setattr(module, name, lambda *_: stopped)
    monkeypatch.setattr(turns, "run", lambda *sides: (stopped,) * len(sides))
    monkeypatch.setattr(changed, "run", lambda *_: (stopped, stopped))
    monkeypatch.setattr(since, "_runs", lambda _: ((stopped, stopped), ""))
    for module in (lookup, lookup_beside):
        monkeypatch.setattr(module, "timed", lambda *_: (stopped, stopped))
    assert compared.measured().ratio is None


def test_every_point_runs(without_spark):
    assert all(point.measured().run == MIXED for point in POINTS)


def test_points_in_the_centre_are_one_run():
    names = {"windows_per_record_R-60", "keys-10000", "seconds_of_disorder-2", "kind_of_key-long", "cores-2"}
    centre = [point for point in POINTS if point.name in names]
    assert len(centre) == len(names)
    assert len({point.side for point in centre}) == 1


def test_batches_with_a_limit_of_bytes_are_compared_with_those_without(monkeypatch):
    monkeypatch.setattr(turns, "run", lambda *sides: [side.settings.batch_bytes for side in sides])
    assert batch_bytes.BENCHMARKS[0].sides() == ("64MB", UNLIMITED)


@pytest.fixture
def benchmarks(monkeypatch, tmp_path):
    """What the command runs in place of all benchmarks, and where it writes the page."""
    there = {}
    monkeypatch.setattr(run, "_benchmarks", lambda quick: iter(there.items()))
    monkeypatch.setattr(run.page, "write", lambda: (tmp_path / "page").write_text("written"))
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)
    monkeypatch.setattr(run, "Measured", partial(resuming.Measured, folder=tmp_path / "ran"))
    return there


def command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["run", *arguments])
    return run.main()


def fails():
    raise RuntimeError("the JVM has died")


def test_a_benchmark_that_fails_does_not_end_the_run(benchmarks, monkeypatch, capsys, tmp_path):
    found = FASTER.measured()
    benchmarks |= {
        "first": lambda: found,
        "second": fails,
        "third": lambda: replace(found, differs="rows"),
        "last": lambda: None,
    }
    assert command(monkeypatch, "--all", "--write") == 1
    assert [each.name for each in results.kept()] == ["Faster"], "what is measured is kept"
    shown = capsys.readouterr()
    assert "first: 15 times faster" in shown.out
    assert "last: done" in shown.out
    assert shown.out.splitlines()[-1] == "Failed, or rows differ: second, third."
    assert "the JVM has died" in shown.err
    assert (tmp_path / "page").exists()


def test_a_run_that_is_stopped_writes_what_there_is(benchmarks, monkeypatch, tmp_path):
    def stopped():
        raise KeyboardInterrupt

    benchmarks["first"] = stopped
    with pytest.raises(KeyboardInterrupt):
        command(monkeypatch, "--all", "--write")
    assert (tmp_path / "page").exists()


def test_all_is_right_and_only_names_are_run(benchmarks, monkeypatch, capsys, tmp_path):
    benchmarks |= {"first": lambda: None, "second": fails}
    assert command(monkeypatch, "--only", "first") == 0
    assert "second" not in capsys.readouterr().out
    assert command(monkeypatch, "--list", "--all") == 0
    assert capsys.readouterr().out == "first\nsecond\n"
    assert not (tmp_path / "page").exists()


def test_a_run_that_was_stopped_goes_on_until_the_code_changes(benchmarks, monkeypatch, capsys):
    def stopped():
        raise KeyboardInterrupt

    benchmarks |= {"first": lambda: None, "second": stopped, "third": lambda: None}
    with pytest.raises(KeyboardInterrupt):
        command(monkeypatch, "--all", "--resume")
    benchmarks["second"] = fails
    assert command(monkeypatch, "--all", "--resume") == 1, "what failed is measured again"
    capsys.readouterr()
    command(monkeypatch, "--all", "--resume", "--list")
    assert capsys.readouterr().out == "second\n"
    command(monkeypatch, "--all", "--list")
    assert capsys.readouterr().out == "first\nsecond\nthird\n"
    monkeypatch.setattr(run, "Measured", partial(run.Measured, code="other"))
    command(monkeypatch, "--all", "--resume", "--list")
    assert capsys.readouterr().out == "first\nsecond\nthird\n"


def test_the_code_of_a_figure_is_all_that_it_may_depend_on(tmp_path):
    for folder in resuming.CODE:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file.py").write_text("1")
    found = {resuming.digest(tmp_path)}
    for folder in resuming.CODE:
        (tmp_path / folder / "file.py").write_text("2")
        found.add(resuming.digest(tmp_path))
    (tmp_path / "benchmarks" / "file.py").rename(tmp_path / "benchmarks" / "other.py")
    assert len(found | {resuming.digest(tmp_path)}) == 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--only", "first", "--only", "Frist"], "no benchmark has 'Frist' in its name"), ([], "nothing to measure")],
)
def test_a_name_that_no_benchmark_has_is_refused_before_anything_runs(arguments, says, benchmarks, monkeypatch, capsys):
    benchmarks["first"] = fails
    with pytest.raises(SystemExit, match="2"):
        command(monkeypatch, *arguments)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("stopped", "names"), [(True, ["0.1 of centre"]), (False, ["0.1 of centre", "centre"])])
def test_what_was_stopped_while_it_warmed_up_is_not_run_again(monkeypatch, stopped, names):
    ran = []

    def run(side):
        ran.append(side.workload.name)
        return replace(SLOW, stopped=stopped)

    monkeypatch.setattr(streams, "_run", run)
    streams.run.__wrapped__(Side(growth.OURS, growth.CENTRE, "1 hour", "1 minute"))
    assert ran == names


def test_every_point_has_the_micro_batches_that_it_counts():
    assert all(point.side.batches for point in POINTS)


@pytest.mark.parametrize("run", [streams.run, turns.run], ids=["alone", "turns"])
def test_too_few_micro_batches_are_refused_before_anything_runs(run, monkeypatch):
    monkeypatch.setattr(session, "session", fails)
    tiny = workloads.Workload("tiny", 200, 3, 600, 5)
    with pytest.raises(ValueError, match=r"got 2 and 4 of `tiny`, which has 5\. Count fewer"):
        run(Side(Ours(), tiny, "5 minutes", "1 minute", Settings(warm_up=0.0)))


@pytest.mark.parametrize("kind", kernels.KINDS)
@pytest.mark.parametrize("name", [entry.name for entry in (*CATALOGUE, *MORE)])
def test_a_kernel_that_takes_no_such_column_is_left_out(name, kind, monkeypatch):
    """A failure of one stops the figures of all, so what a combinator refuses must be known before it is timed."""
    monkeypatch.setattr(kernels.Data, "records", lambda *_: ((), ()))
    monkeypatch.setattr(kernels, "from_records", lambda *_: None)
    with suppress(NotImplementedError):
        kernels.Combinators().setup(name, kind)


def test_the_job_of_an_old_commit_needs_only_what_that_commit_has(monkeypatch):
    """It is run with the packages of commits that had hopping windows only."""
    old = types.ModuleType("slicing")
    vars(old).update(group_by=None, hopping=lambda size, advance: (size, advance), on_close=None, on_update=None)
    monkeypatch.setitem(sys.modules, "slicing", old)
    job = runpy.run_path(str(old_commit.JOB))
    assert job["WINDOWS"]["hopping"]("1 hour", "1 minute") == (("1 hour", "1 minute"),)


def test_goals_come_first_then_comparisons_memory_axes_and_kernels():
    names = [name for name, _ in run._benchmarks(quick=False)]
    goals = [each.name for each in COMPARED.values() if each.goal]
    assert names[: len(goals)] == goals
    assert names[: len(COMPARED)] == list(COMPARED)
    assert names[-1 - len(POINTS) : -1] == [point.name for point in POINTS]
    assert names[-1] == "Kernels"
    assert {"Memory-24_hours-double", "Accounting", "Physical"} <= set(names)


def point(x, seconds, axis="windows per record, R"):
    spec = next(each for each in growth.AXES if each.axis == axis and each.x == x)
    return results.Point(spec.name, axis, spec.label, x, "", replace(FAST, seconds=seconds), "2 cores, Python 3")


def test_page_shows_what_was_measured_and_what_was_not():
    ratio = replace(FASTER.measured(), name="DayLong", title="day / tumbling", machine="2 cores, Python 3")
    counted = results.Table("Accounting", accounting.table([5]), "2 cores, Python 3")
    measured = [ratio, counted, point(1, 2.0), point(10, 20.0)]
    lines = page.text(measured, [("Blocks: encode", "bigint", 0.0015)]).splitlines()
    assert "| slices, on close, two-layer | 5 | 1 / 1 | 0 / 1 | 0 / 1 | 3 / 2 | 3 / 2 | 3 / 3 |" in lines
    assert "| day / tumbling | >= 10 | 15 (reached) | times faster | 30.00 s | 2.00 s | 1,000 | 60 |" in lines
    assert any(
        line.startswith("| two weeks, R = 10,080, long / ours at R = 60 |") and "not measured" in line for line in lines
    )
    assert any(line.startswith("| *grows with power* | *1.00* | *-1.00* |") for line in lines)
    assert "| Blocks: encode | bigint | 1.50 |" in lines
    assert lines[-1] == "Measured on 2 cores, Python 3."


def test_page_shows_where_the_time_goes():
    """Seconds of tasks that run at once count half; what no stage has is the rest."""
    ours = replace(FAST, seconds=2.0, around=0.25, stages=(("preaggregate", 1.0), ("write", 0.004)))
    found = page.text([results.Stages("StagesDay", "day, R = 60", replace(FAST, seconds=1.0), ours, "here")])
    section = found.partition("## Where the time goes")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    head = rows[0]
    assert [dict(zip(head, row, strict=True))["rest"] for row in rows[2:]] == ["1.25", "1.00"]
    assert rows[2][:4] == ["day, R = 60", "2.00", "0.25", "0.50"]
    assert set(rows[2][4:-1]) == {""}
    assert rows[3][:2] == ["without any work", "1.00"]


@pytest.mark.parametrize(
    ("name", "heading", "says"),
    [("FlinkDay", "Flink SQL", page.FLINK), ("KafkaStreamsClose", "Kafka Streams", page.KAFKA_STREAMS)],
)
def test_page_shows_comparisons_made_by_hand_if_there_are_any(name, heading, says):
    ratio = replace(FASTER.measured(), name=name, title="day / peer")
    assert f"## {heading}\n\n{says}\n\n" in page.text([ratio])
    assert "| day / peer |" in page.text([ratio])
    assert heading not in page.text([])


def test_sections_of_which_nothing_was_measured_again_stay_as_they_were():
    counted = results.Table("Accounting", accounting.table([5]), "an old machine")
    before = page.text([counted, point(1, 2.0), point(10, 20.0)], [("Blocks: encode", "bigint", 0.0015)])
    assert page.text([], before=before) == before
    after = page.text(
        [replace(counted, text="| new |", machine="2 cores, Python 3"), point(1, 7.0), point(10, 8.0)], before=before
    )
    assert "| Blocks: encode | bigint | 1.50 |" in after
    assert "| new |" in after
    assert "| slices, on close, two-layer |" not in after
    assert "| 1 | 7 | " in after
    assert "| 10 | 20 | " in before
    assert "| 10 | 20 | " not in after
    assert after.splitlines()[-1] == "Measured on 2 cores, Python 3; an old machine."
    assert page.text([], before=page.text([])) == page.text([])


@pytest.mark.parametrize(
    ("name", "goal", "ratio", "above", "at_floor", "above_hand", "by_hand"),
    [
        ("DayLong", 2.2, 1.8, 1.7, "3.06 (in reach)", 1.2, "2.16 (out of reach)"),
        ("UpdateHour", 6.0, 3.6, 1.2, "4.32 (out of reach)", None, ""),
        ("FixedCost", 1.6, 1.92, 1.25, "1.54 (in reach)", 1.2, "1.6 (in reach)"),
        ("FixedCost", 1.6, 1.92, 1.1, "1.75 (out of reach)", None, ""),
        ("FixedFloor", 1.1, 1.21, 1.21, "1 (in reach)", 1.05, "1.15 (out of reach)"),
    ],
)
def test_a_missed_goal_is_compared_with_its_floor(name, goal, ratio, above, at_floor, above_hand, by_hand):
    """If work took no time, or as much as by hand, the ratio would be better by what ours takes above that."""
    values = {floors.FLOORS[name]: above, name: ratio}
    values |= {floors.BY_HAND[name]: above_hand} if above_hand else {}
    made = {each: replace(COMPARED[each].ratio_of(SLOW, FAST, None), ratio=value) for each, value in values.items()}
    before = page.text(made.values())
    title, sign = COMPARED[name].title, ">=" if COMPARED[name].measure.more_is_better else "<="
    assert COMPARED[name].goal == goal
    assert f"| {title} | {ratio} | {sign} {goal:.3g} | {above} | {at_floor} | {by_hand} |" in missed(before)
    assert page.text([], before=before) == before
    reached = page.text([replace(made[name], ratio=goal)], before=before)
    assert not any(line.startswith(f"| {title} |") for line in missed(reached))
    every = [replace(each, ratio=each.goal) for each in made.values() if each.goal]
    assert page.MISSED not in page.text(every, before=before)


def test_a_goal_that_is_missed_by_less_than_is_shown_has_its_floor():
    name, other = "ReadDayLong", "ReadDayLongFloor"
    values = {name: 1.2049, other: 1.35}
    made = (replace(COMPARED[each].ratio_of(MIXED, MIXED, None), ratio=value) for each, value in values.items())
    assert f"| {COMPARED[name].title} | 1.205 | <= 1.2 | 1.35 | 0.893 (in reach) |  |" in missed(page.text(made))


def missed(text):
    return text.partition(f"## {page.MISSED}")[2].partition("\n## ")[0].splitlines()


@pytest.mark.parametrize("others", [floors.FLOORS, floors.BY_HAND])
def test_floors_are_of_comparisons_that_there_are(others):
    assert {*others, *others.values()} <= COMPARED.keys()
    for name, other in others.items():
        assert COMPARED[name].title.partition(" / ")[0].startswith(COMPARED[other].title.partition(" / ")[0]), name


def test_figures_that_were_not_measured_again_keep_their_lines():
    of_state, growth_of_worker = (
        results.Figure(title, title, 1.0, "MiB", 2.0, "here") for title in ("state", "growth")
    )
    before = page.text([of_state, growth_of_worker])
    after = page.text([replace(of_state, value=1.5)], before=before)
    assert "| state | <= 2 | 1.5 MiB |\n| growth | <= 2 | 1 MiB |\n" in after
    assert after.count("| state |") == 1


def test_titles_tell_comparisons_apart():
    """Lines that stay on the page are found by them."""
    assert len({each.title for each in COMPARED.values()}) == len(COMPARED)


def test_lines_that_were_not_measured_again_stay_as_they_were():
    day, week = (
        replace(FASTER.measured(), name=name, title=COMPARED[name].title) for name in ("DayLong", "WideDayLong")
    )
    before = page.text([day, replace(week, baseline=replace(SLOW, note="cold"))])
    assert page.text([], before=before) == before
    after = page.text([replace(day, ratio=3.0)], before=before)
    assert f"| {day.title} | >= 10 | 3 (missed) |" in after
    assert f"| {week.title} | >= 10 | 15 (reached) |" in after
    assert f"- {week.title}: baseline: cold" in after
    assert [(each.title, each.goal, each.ratio) for each in ratios.goals(after)] == [
        (day.title, 10.0, 3.0),
        (week.title, 10.0, 15.0),
    ]


def test_processor_seconds_are_compared_per_record_and_without_the_broker():
    sides = Run(9.0, 100, processor=10.0), Run(9.0, 1_000, processor=5.0)
    assert PROCESSOR.ratio(*sides) == pytest.approx(20.0)
    before = processor_seconds()
    code = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint(); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        busy.stdout.readline()
        both, alone = processor_seconds(), processor_seconds(without=busy.pid)
        busy.communicate(b"\n")
    assert both - alone > 0.4
    assert alone - before < 0.4


def test_flink_reads_what_ours_reads_in_one_file_per_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path / "workloads")
    workload = workloads.Workload("try", 100, 10, 60, 3)
    flink.write(workload, "1 hour", tmp_path)
    for part in range(2):
        batches = sorted((tmp_path / "batches").glob(f"*-{part}.csv"), key=lambda path: path.stat().st_mtime)
        lines = (tmp_path / "readers" / f"{part}.csv").read_text().splitlines()
        assert lines == [line for path in batches for line in path.read_text().splitlines()]
        assert len(lines) == 3 * 50 + 1
        assert lines[-1] == f"-1,{workloads.START // 1000 + 180_000 + 2 * 3_600_000},0"


def test_the_page_for_readers_has_the_figures_of_the_measurements():
    written, measured = page.GUIDE.read_text(), page.PAGE.read_text()
    assert guide.written(written, measured) == written, "write it anew: python -m benchmarks.run --write"
    assert len(guide.SENTENCES) == len(guide.in_brief(measured).splitlines()) == 10
    for title, sentence in guide.SENTENCES:
        (ratio,) = re.findall(rf"^\| {re.escape(title)} \| [^|]* \| ([\d.e+]+)[^|]* \|", measured, re.MULTILINE)
        said = re.search(
            re.escape(sentence).replace(r"\{ratio\}", r"([\d.]+)").replace(r"\{percent\}", r"(\d+) %"), written
        )
        assert float(said[1]) / (100 if "percent" in sentence else 1) == pytest.approx(float(ratio), rel=0.05)
    reached, missed = (measured.count(f"({word}) |") for word in ("reached", "missed"))
    assert f"\nOf {reached + missed} goals {reached} are reached, {missed} are missed: " in written
    axis = re.search(r"^\| keys \| time, s \|.*\n.*\n((?:\| \d.*\n)+)", measured, re.MULTILINE)[1].splitlines()
    few, many = (row.strip("| ").split(" | ")[:2] for row in (axis[0], axis[-1]))
    assert f"| keys | {few[0]} | {many[0]} | {float(few[1]):.2g} to {float(many[1]):.2g} |" in written
    assert f"\n{guide.workloads()}\n" in written
    assert written.count("<!-- ") == 10


def test_figures_that_are_not_measured_have_no_sentence():
    assert guide.in_brief("") == ""
    title, _ = guide.SENTENCES[0]
    assert guide.in_brief(f"| {title} |  | not measured |  |") == ""
    assert "**12 times as fast**" in guide.in_brief(f"| {title} |  | 12.5 | times faster |")
    assert "**9.5 times as fast**" in guide.in_brief(f"| {title} | >= 60 | 9.5 (missed) | times faster |")


def test_growth_is_from_the_first_to_the_last_point_that_was_not_stopped():
    points = [point(1, 2.0), point(10, 20.0), point(60, 0.0)]
    points[2] = replace(points[2], run=replace(points[2].run, stopped=True))
    assert "| windows per record, R | 1 | 10 | 2 to 20 |" in guide.growth(page.text(points)).splitlines()


def test_page_links_the_plots_it_wrote(tmp_path):
    results.keep(replace(FASTER.measured(), name="DayLong"))
    for each in (point(1, 2.0), point(10, 20.0)):
        results.keep(each)
    short = tmp_path / "performance.md"
    short.write_text("# Performance\n\n<!-- growth -->\n<!-- end of growth -->\n\nBelow\n")
    page.write(tmp_path / "performance" / "measurements.md", short)
    text = (tmp_path / "performance" / "measurements.md").read_text()
    for name in ("goals", "axes"):
        assert f"]({name}.svg)" in text
        drawn = (tmp_path / "performance" / f"{name}.svg").read_text()
        assert "<svg" in drawn
        assert len(drawn) < 200_000
    assert not (tmp_path / "performance" / "crosses.svg").exists()
    assert "| windows per record, R | 1 | 10 | 2 to 20 |\n<!-- end of growth -->\n\nBelow\n" in short.read_text()


def test_same_results_give_the_same_plots(tmp_path):
    drawn = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        plots.draw([], [[point(1, 2.0), point(10, 20.0)], []], tmp_path / name)
        drawn.append((tmp_path / name / "axes.svg").read_text())
    assert drawn[0] == drawn[1]


def test_workloads_are_cut_and_written_once(tmp_path, monkeypatch):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    history = workloads.Workload("before", 100, 10, 60, 1)
    workload = workloads.Workload("try", 1_000, 10, 60, 2, late=0.1, key="composite", history=history).cut(0.1)
    assert (workload.records, workload.keys, workload.history.records) == (100, 1, 10)
    files = sorted(workload.path().iterdir())
    assert len(files) == 6, "three micro-batches of two files"
    assert [file.stat().st_mtime for file in files] == sorted(file.stat().st_mtime for file in files)
    import pyarrow.parquet as pq

    assert sum(len(pq.read_table(file)) for file in files) == 210
    assert workload.path() == workload.path()
    assert replace(workload, late=0.0).path() != workload.path()


def test_tables_of_asv_are_read(tmp_path):
    kept = {
        "result_columns": ["result", "params", "version"],
        "results": {
            "kernels.Blocks.time_encode": [[0.002, None], [["'a'", "'b'"], ["1"]], "x"],
            "goals.DayLong.track_ratio": [[5.0], [], "x"],
        },
    }
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm" / "machine.json").write_text("{}")
    (tmp_path / "vm" / "commit.json").write_text(json.dumps(kept))
    assert asv.kernels(tmp_path) == [("Blocks: encode", "a, 1", 0.002)]


@pytest.mark.parametrize("engine", [*polars.ENGINES, "DuckDB"])
def test_polars_and_duckdb_give_the_windows_that_hold_a_record(engine, tmp_path):
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    minute = 60 * 10**6
    rows = [(1, 0, 5), (1, 1, 7), (1, 7, 1), (2, 3, 2)]
    keys, times, values = zip(*rows, strict=True)
    stamps = pa.array([workloads.START + minute * time for time in times], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"key": keys, "ts": stamps, "v": values}), tmp_path / "a.parquet")
    window, wanted = ([tmp_path / "a.parquet"], "3 minutes", "1 minute"), []
    for key in (1, 2):
        for start in range(-2, 8):
            inside = [v for k, t, v in rows if k == key and start <= t < start + 3]
            if inside:
                wanted.append((key, start, start + 3, len(inside), sum(inside)))
    if engine == "DuckDB":
        import duckdb as engine_of_sql

        with engine_of_sql.connect() as connection:
            found = connection.sql(duckdb.hopping(*window)).fetchall()
        assert duckdb.windows(*window) == len(wanted)
    else:
        rows_of = polars.windows(*window).unnest("window").with_columns(pl.col("start", "end").dt.epoch("us"))
        found = rows_of.collect(engine=engine).rows()
    assert sorted(
        (key, *((edge - workloads.START) // minute for edge in edges), n, total) for key, *edges, n, total in found
    ) == sorted(wanted)


def test_the_fastest_of_several_ways_counts_and_all_are_noted(monkeypatch):
    seconds, names = {"slow": 3.0, "quick": 1.5}, ["slow", "quick"]
    monkeypatch.setattr(bounded, "warm_seconds", lambda action, repeat: seconds[action() or names.pop(0)])
    found = bounded.fastest({name: lambda: 7 for name in names}, 100)
    assert (found.seconds, found.records, found.note) == (1.5, 100, "slow 3.00 s, quick 1.50 s")


@pytest.mark.parametrize("name", ["five", *polars_results.RESULTS])
def test_polars_gives_other_results_of_the_windows_that_hold_a_record(name, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    minute = 60 * 10**6
    rows = [(1, 0, 5), (1, 1, 7), (1, 1, 7), (1, 7, 1), (2, 3, 2)]
    keys, times, values = zip(*rows, strict=True)
    stamps = pa.array([workloads.START + minute * time for time in times], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"key": keys, "ts": stamps, "v": values}), tmp_path / "a.parquet")
    origin = dt.datetime.fromtimestamp(workloads.START / 1e6, dt.UTC)
    found = polars_results.query(name, [tmp_path / "a.parquet"], "3 minutes", "1 minute").collect()
    held = {}
    for key in (1, 2):
        for start in range(-2, 8):
            if inside := [v for k, t, v in rows if k == key and start <= t < start + 3]:
                held[key, start] = inside
    truth = {
        "five": lambda values: [statistics.mean(values), len(values), sum(values)],
        "distinct": lambda values: [len(set(values))],
        "top": lambda values: [{(value, values.count(value)) for value in values}],
    }
    shown = {
        "five": lambda mean, variance, deviation, count, total: [mean, count, total],
        "distinct": lambda count: [count],
        "top": lambda counts: [{(each["v"], each["count"]) for each in counts}],
    }
    got = {
        (key, (window["start"] - origin) // dt.timedelta(minutes=1)): shown.get(name, lambda _: [])(*results)
        for key, window, *results in found.rows()
    }
    assert got == {place: truth.get(name, lambda _: [])(inside) for place, inside in held.items()}


@pytest.mark.slow
def test_asv_finds_all_benchmarks():
    """What it imports and checks are the signatures of all benchmarks; it exits with 1 if one of them is wrong."""
    pytest.importorskip("asv")
    found = subprocess.run(
        [sys.executable, "-m", "asv", "check", "--python=same"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "No problems found" in found.stdout


class Tree:
    """Takes these seconds, one turn after another; the first stream is the one whose rows are compared."""

    def __init__(self, *seconds, rows=10, hashes="1", partials=(2.0, 1.0)):
        self.seconds, self.found = [9.0, *seconds], {"rows": rows, "hashes": hashes, "partials": partials}

    def run(self, **stream):
        assert stream.get("hashed", False) == (self.seconds[0] == 9.0)
        seconds = self.seconds.pop(0)
        return self.found | {"seconds": seconds, "mib": 100 * seconds}


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    return Timed("small", workloads.Workload("small", 10, 2, 60, 3), "5 minutes", "1 minute")


def test_the_best_turn_of_each_commit_counts_and_its_most_memory(small):
    now, then = Tree(4.0, 2.1, 3.0), Tree(2.5, 2.0, 7.5)
    cells = small.compared(now.run, then.run, 3, 1.0)
    assert cells == ("small", "2.100 s", "2.000 s", "1.050", "<= 1.05 (reached)", "400 / 750")
    assert small.compared(Tree(2.2).run, Tree(2.0).run, 1, 1.0)[-2] == "<= 1.05 (missed)"


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"rows": 11}, "rows differ: 10, then 11"), ({"hashes": "2"}, "rows differ: their hashes sum to another value")],
)
def test_commits_whose_rows_differ_are_not_timed(changes, says, small):
    assert small.compared(Tree().run, Tree(**changes).run, 3, 1.0) == ("small", "", "", says, "", "")


def test_commits_without_rows_prove_nothing(small):
    assert small.compared(Tree(rows=0).run, Tree(rows=0).run, 3, 1.0)[3] == "no rows at all"


def test_partials_of_a_key_are_compared_by_count(small):
    line = Counted("two-layer", "two_layer")
    cells = line.compared(Tree(partials=(16.0, 8.0)).run, Tree(partials=(24.0, 8.0)).run, 1, 0.01)
    assert cells == ("two-layer", "2.00 / 1.00", "3.00 / 1.00", "0.750", "<= 1 (reached)", "")
    assert line.compared(Tree().run, Tree(partials=(0.0, 0.0)).run, 1, 0.01)[3] == "not counted then"


@pytest.mark.parametrize(("bounded", "records"), [(False, 10), (True, 30)])
def test_a_query_since_a_commit_is_judged_by_its_best_turn_and_by_memory_above_idle(
    bounded, records, monkeypatch, tmp_path
):
    small = workloads.Workload("small", 10, 2, 60, 3)
    asked, trees = [], {"now": [(1.0, 9, 40), (4.0, 8, 70), (2.0, 7, 60)], "then": [(1.0, 9, 30), (6.0, 9, 150)] * 2}

    class Tree:
        def __init__(self, name):
            self.name = name

        def watched(self, **query):
            asked.append((self.name, query["path"], query.get("hashed", False), query.get("bounded", False)))
            seconds, processor, mib = trees[self.name].pop(0)
            return {"seconds": seconds, "processor": processor, "mib": mib, "rows": 10, "hashes": self.name[hashed:]}

    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    monkeypatch.setattr(since, "both", lambda commit: nullcontext((Tree("now"), Tree("then"))))
    hashed = 4  # equal
    query = Since("a commit", small, "5 minutes", "1 minute", "rows", bounded)
    then, now = query.sides()
    cut, whole = str(query.cut.path()), str(small.path())
    each = [("now", whole, False, bounded), ("then", whole, False, bounded)]
    assert asked == [("now", cut, True, bounded), ("then", cut, True, bounded), *each, *each]
    assert query.difference() is None
    assert (now.seconds, then.seconds, now.records, then.records) == (2.0, 1.0, records, records)
    assert comparison.MEMORY.ratio(then, now) == (70 - 40) / (150 - 30)
    assert now.note == "7 s of processors in all; a worker has 70 MiB at most, an idle one 40"
    trees |= {"now": [(1.0, 9, 40)] * 3, "then": [(1.0, 9, 30)] * 3}
    hashed = 0
    other = replace(query, turns=1)
    assert other.difference() == "rows differ: their hashes sum to another value"


def test_lines_are_chosen_by_a_part_of_their_name(monkeypatch):
    for kind in (Timed, Counted):
        monkeypatch.setattr(kind, "compared", lambda line, *_: (line.name,))
    assert [name for (name,) in lines(None, None, ["dense", "fixed"], 1, 1.0)] == [
        "dense, R = 360",
        "fixed cost, R = 360",
    ]
    assert len(list(lines(None, None, [], 1, 1.0))) == len(LINES)


def test_a_commit_that_is_not_there_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    with (
        pytest.raises(ValueError, match="there must be a commit `no-such-commit`; git says: "),
        old_commit.tree_of("no-such-commit"),
    ):
        pass


def test_figures_of_serving_are_a_table_of_their_own():
    found = [
        results.Figure("Serving-a", "read", 0.31, "ms", 0.5, "here"),
        results.Figure("Serving-b", "lookup / read", 500.0, "times as long", 300.0, "here", more_is_better=True),
        results.Figure("m", "peak", 5.0, "MiB", 10.0, "here"),
    ]
    written = page.text(found)
    table = "| read | <= 0.5 | 0.31 ms |\n| lookup / read | >= 300 | 500 times as long |"
    assert f"## Serving\n\n{markdown(('', 'goal', 'measured'))}\n{table}\n\n" in written
    assert page.text(found[2:], before=written) == written


def test_served_slices_are_those_of_their_records(monkeypatch):
    monkeypatch.setattr(served_rows, "BUSY", 1)
    reader = Reader(served.filled.__wrapped__("sqlite", 4), served_rows.CARD)
    for some in served_rows.portions(4):
        for key in set(some.key.tolist()):
            answer = reader.read(key, at=served_rows.NOW)
            for name, start in answer.starts.items():
                held = (some.key == key) & (some.ts >= start.timestamp() * 1e6)
                assert answer[name] == _of_records(some.n[held], some.x[held])
    reader.close()


def _of_records(n, x):
    if not len(n):
        return {"n": 0, "total": None, "mean": None, "low": None, "high": None}
    return {"n": len(n), "total": n.sum(), "mean": x.mean(), "low": x.min(), "high": x.max()}
