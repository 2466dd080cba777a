"""The benchmarks judge rightly: ratios and goals, the comparison of rows, fits, the files they keep, the page."""

import datetime as dt
import importlib
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException

pytest.importorskip("polars", reason="the packages of the group `bench` are not installed")
pytest.importorskip("matplotlib", reason="the packages of the group `bench` are not installed")

from benchmarks import accounting, axes, flink, goals, measure, page, plots, results, run, turns, workloads
from benchmarks.floor import Floor
from benchmarks.measure import Run
from benchmarks.queries import FourFunctions, Ours, SparkExploded, SparkWindow
from benchmarks.rows import difference
from slicing import on_change, on_update
from slicing.spark.session import BATCH_BYTES, UNLIMITED

FAST, SLOW = Run(2.0, 1_000, 60), Run(30.0, 1_000, 60)


class Faster(goals._Comparison):
    """ours / theirs."""

    goal = 10.0
    runs = (SLOW, FAST)
    differs = None

    def sides(self):
        return self.runs

    def checks(self):
        return [Checked(None), Checked(self.differs)]


class Checked:
    def __init__(self, text):
        self.text = text

    def difference(self):
        return self.text


class Slower(goals._Slower):
    """ours / theirs."""

    goal = 1.2
    runs = (FAST, replace(FAST, seconds=2.6, records=2_000))
    sides, checks, differs = Faster.sides, Faster.checks, None


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path / "measured")
    return tmp_path / "measured"


def test_faster_is_the_baseline_per_record_over_ours():
    found = Faster().measured()
    assert (found.ratio, found.reached) == (15.0, True)
    assert not replace(found, ratio=9.9).reached


def test_slower_is_ours_per_record_over_the_baseline():
    found = Slower().measured()
    assert found.ratio == pytest.approx(0.65)
    assert found.reached
    assert not replace(found, ratio=1.21).reached


def test_no_ratio_where_a_side_was_stopped(monkeypatch):
    monkeypatch.setattr(Faster, "runs", (replace(SLOW, stopped=True), FAST))
    found = Faster().measured()
    assert (found.ratio, found.reached) == (None, None)
    assert math.isnan(Faster().track_ratio())
    assert "| no ratio |" in page.table([""], [[page._ratio(found)]])
    assert "stopped at 30 s" in page.in_short(found)


def test_no_ratio_where_rows_differ(monkeypatch):
    monkeypatch.setattr(Faster, "differs", "3 rows, not 4")
    found = Faster().measured()
    assert found.ratio is None
    assert "rows differ: 3 rows, not 4" in page.in_short(found)


def test_results_come_back_as_they_were_kept(folder):
    run = replace(FAST, each=((1.5, 10), (2.5, 0)), store="RocksDB", note="a note")
    kept = [
        results.Ratio("A", "a / b", "times faster", None, True, 2.0, None, SLOW, run, "here"),
        results.Point("p", "keys", "10", 10.0, "", run, "here"),
        results.Figure("m", "peak", 5.0, "MiB", 10.0, "here"),
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
    assert axes.exponent(xs, [3 * x**power for x in xs]) == pytest.approx(power, abs=1e-12)


def test_exponent_is_that_of_least_squares():
    # Slope of the line through (0, 0), (1, 1), (2, 1) in logarithms: 0.5.
    assert axes.exponent([1, math.e, math.e**2], [1, math.e, math.e]) == pytest.approx(0.5)


@pytest.mark.parametrize(("xs", "ys"), [([], []), ([10], [2]), ([10, 10], [2, 3]), ([1, 10], [0, 5])])
def test_no_exponent_without_a_line(xs, ys):
    assert axes.exponent(xs, ys) is None


def test_names_of_points_are_unique():
    names = [spec.name for spec in axes.ALL]
    assert len(set(names)) == len(names)
    assert {spec.name for spec in axes.QUICK} <= set(names)


def test_the_run_that_warms_up_is_no_point():
    # Runs of the same arguments are shared, so a point with these would be the cold run.
    assert all(spec.settings != axes.WARM_UP for spec in axes.ALL)


def test_every_goal_is_listed_once():
    listed = [each.__name__ for each in goals.ALL]
    defined = {
        name for name, each in vars(goals).items() if isinstance(each, type) and issubclass(each, goals._Comparison)
    }
    assert sorted(listed) == sorted(name for name in defined if not name.startswith("_"))
    assert all(each.goal for each in goals.GOALS)


MIXED = Run(2.0, 1_000, 10, each=((1.0, 0), (3.0, 20)), store="RocksDB", read_bytes=8, checkpoint_bytes=4.0)


@pytest.fixture
def without_spark(monkeypatch):
    """Every run takes two seconds; what would run is noted."""
    ran = []

    def run(query, workload, size, advance, *settings):
        ran.append((query, workload.name, size, advance))
        return MIXED

    for name in ("stream", "faster", "bounded"):
        monkeypatch.setattr(goals, name, run)
    monkeypatch.setattr(goals, "turns", lambda *sides: tuple(run(*vars(side).values()) for side in sides))
    monkeypatch.setattr(axes, "stream", run)
    monkeypatch.setattr(goals.polars_side, "bounded", lambda *window: run("polars", *window))
    monkeypatch.setattr(goals, "_difference", lambda check: ran.append(check))
    return ran


@pytest.mark.parametrize("comparison", goals.ALL, ids=lambda each: each.__name__)
def test_every_comparison_runs_two_sides_and_checks_rows(comparison, without_spark):
    found = comparison().measured()
    checks = [each for each in without_spark if isinstance(each, goals.Check)]
    assert checks or issubclass(comparison, goals._Floor), "nothing but the floor has rows of its own"
    assert all(check.workload.total < 100_000 for check in checks), "rows are compared on a cut"
    # As long as a run is, so long is the fixed cost that this one takes off.
    assert found.ratio == pytest.approx(0.0 if comparison is goals.PolarsStream else 1.0)
    assert results.Ratio(**vars(found)) == found
    assert found.title == " ".join(found.title.split())


@pytest.mark.parametrize(
    ("comparison", "baseline", "ours"),
    [
        (goals.DoubleHour, (Ours("v"), "1 hour"), (Ours("d"), "1 hour")),
        (goals.FourFunctionsByRow, (Ours("v"), "1 hour"), (FourFunctions(), "1 hour")),
        (goals.DoubleDay, (Ours("v"), "24 hours"), (Ours("d"), "24 hours")),
        (goals.WideDayDouble, (Ours("d"), "1 hour"), (Ours("d"), "24 hours")),
        (goals.WideWeekLong, (Ours("v"), "1 hour"), (Ours("v"), "7 days")),
        (goals.ChangeClose, (Ours(), "1 hour"), (Ours(emission=on_change()), "1 hour")),
        (goals.FixedCost, (SparkWindow(), "10 seconds"), (Ours(), "1 hour")),
        (goals.FixedFloor, (Floor(0), "1 hour"), (Ours(), "1 hour")),
        (goals.UpdateHour, (SparkWindow(), "1 hour"), (Ours(emission=on_update()), "1 hour")),
    ],
)
def test_sides_that_take_turns_are_told_apart(comparison, baseline, ours, without_spark, monkeypatch):
    def named(*sides):
        assert all(side.batches for side in sides), "they have the micro-batches that are counted"
        return tuple(replace(MIXED, note=repr((side.query, side.size))) for side in sides)

    monkeypatch.setattr(goals, "turns", named)
    monkeypatch.setattr(goals, "faster", lambda query, *window: replace(MIXED, note=repr((query, window[1]))))
    first, second = comparison().sides()
    assert (first.note.removeprefix("before, alone: "), second.note) == (repr(baseline), repr(ours))


@pytest.mark.parametrize("comparison", goals.ALL, ids=lambda each: each.__name__)
def test_no_ratio_of_any_comparison_whose_runs_were_stopped(comparison, without_spark, monkeypatch):
    stopped = Run(240.0, 1_000, stopped=True, store="RocksDB")
    for name in ("stream", "faster", "bounded"):
        monkeypatch.setattr(goals, name, lambda *_: stopped)
    monkeypatch.setattr(goals, "turns", lambda *sides: (stopped,) * len(sides))
    assert comparison().measured().ratio is None


def test_every_point_runs(without_spark):
    for spec in axes.ALL:
        assert spec.measured().run == MIXED
    assert len(list(results.kept())) == len(axes.ALL)


def test_points_in_the_centre_are_one_run():
    names = {"windows_per_record_R-60", "keys-10000", "seconds_of_disorder-2", "kind_of_key-long", "cores-2"}
    centre = [spec for spec in axes.ALL if spec.name in names]
    assert len(centre) == len(names)
    assert len({(spec.query, spec.workload, spec.windows, spec.settings) for spec in centre}) == 1


@pytest.fixture
def benchmarks(monkeypatch, tmp_path):
    """What the command runs in place of all benchmarks, and where it writes the page."""
    there = {}
    monkeypatch.setattr(run, "_benchmarks", lambda quick: iter(there.items()))
    monkeypatch.setattr(run.page, "write", lambda: (tmp_path / "page").write_text("written"))
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)
    return there


def command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["run", *arguments])
    return run.main()


def fails():
    raise RuntimeError("the JVM has died")


def test_a_benchmark_that_fails_does_not_end_the_run(benchmarks, monkeypatch, capsys, tmp_path):
    found = Faster().measured()
    benchmarks |= {
        "first": lambda: found,
        "second": fails,
        "third": lambda: replace(found, differs="rows"),
        "last": lambda: None,
    }
    assert command(monkeypatch, "--all", "--write") == 1
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

    def run(query, workload, *arguments):
        ran.append(workload.name)
        return replace(SLOW, stopped=stopped)

    monkeypatch.setattr(measure, "_stream", run)
    measure._once.__wrapped__(axes.OURS, axes.CENTRE, "1 hour", "1 minute", measure.Settings())
    assert ran == names


def test_every_point_has_the_micro_batches_that_it_counts():
    for spec in axes.ALL:
        measure.batches(spec.workload, spec.settings)


@pytest.mark.parametrize(
    "run", [measure.stream, lambda *window: turns.turns(turns.Side(*window))], ids=["alone", "turns"]
)
def test_too_few_micro_batches_are_refused_before_anything_runs(run, monkeypatch):
    monkeypatch.setattr(measure, "session", fails)
    with pytest.raises(ValueError, match=r"got 2 and 4 of `tiny`, which has 5\. Count fewer"):
        run(Ours(), *WINDOW, measure.Settings(warm_up=0.0))


def test_goals_come_first_then_memory_axes_and_kernels():
    names = [name for name, _ in run._benchmarks(quick=False)]
    assert names[: len(goals.ALL)] == [each.__name__ for each in goals.ALL]
    assert names[-1 - len(axes.ALL) : -1] == [spec.name for spec in axes.ALL]
    assert names[-1] == "Kernels"
    assert {"Memory 24 hours d", "Kernels", "Accounting", "Physical"} <= set(names)


def point(x, seconds, axis="windows per record, R"):
    spec = next(spec for spec in axes.AXES if spec.axis == axis and spec.x == x)
    return results.Point(spec.name, axis, spec.label, x, "", replace(FAST, seconds=seconds), "2 cores, Python 3")


def test_page_shows_what_was_measured_and_what_was_not():
    ratio = replace(Faster().measured(), name="DayLong", title="day / tumbling", machine="2 cores, Python 3")
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


def test_page_shows_comparisons_with_flink_if_there_are_any():
    ratio = replace(Faster().measured(), name="FlinkDay", title="day / Flink")
    assert f"## Flink SQL\n\n{page.FLINK}\n\n" in page.text([ratio])
    assert "| day / Flink |" in page.text([ratio])
    assert "Flink SQL" not in page.text([])


def test_flink_reads_what_ours_reads_in_one_file_per_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path / "workloads")
    workload = workloads.Workload("try", 100, 10, 60, 3)
    flink.write(workload, 3_600_000_000, tmp_path)
    for part in range(2):
        batches = sorted((tmp_path / "batches").glob(f"*-{part}.csv"), key=lambda path: path.stat().st_mtime)
        lines = (tmp_path / "readers" / f"{part}.csv").read_text().splitlines()
        assert lines == [line for path in batches for line in path.read_text().splitlines()]
        assert len(lines) == 3 * 50 + 1
        assert lines[-1] == f"-1,{workloads.START // 1000 + 180_000 + 2 * 3_600_000},0"


def test_page_links_the_plots_it_wrote(tmp_path):
    results.keep(replace(Faster().measured(), name="DayLong"))
    for each in (point(1, 2.0), point(10, 20.0)):
        results.keep(each)
    page.write(tmp_path / "performance.md")
    text = (tmp_path / "performance.md").read_text()
    for name in ("goals", "axes"):
        assert f"](performance/{name}.svg)" in text
        drawn = (tmp_path / "performance" / f"{name}.svg").read_text()
        assert "<svg" in drawn
        assert len(drawn) < 200_000
    assert not (tmp_path / "performance" / "crosses.svg").exists()


def test_same_results_give_the_same_plots(tmp_path):
    drawn = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        plots.draw([point(1, 2.0), point(10, 20.0)], tmp_path / name)
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
    assert page._kernels(tmp_path) == [("Blocks: encode", "a, 1", 0.002)]


def test_polars_gives_the_windows_that_hold_a_record(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    polars_side = importlib.import_module("benchmarks.polars_side")
    minute = 60 * 10**6
    rows = [(1, 0, 5), (1, 1, 7), (1, 7, 1), (2, 3, 2)]
    keys, times, values = zip(*rows, strict=True)
    stamps = pa.array([workloads.START + minute * time for time in times], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"key": keys, "ts": stamps, "v": values}), tmp_path / "a.parquet")
    found = polars_side.windows([tmp_path / "a.parquet"], "3 minutes", "1 minute").collect()
    wanted = []
    for key in (1, 2):
        for start in range(-2, 8):
            inside = [v for k, t, v in rows if k == key and start <= t < start + 3]
            if inside:
                wanted.append((key, start, start + 3, len(inside), sum(inside)))
    origin = dt.datetime.fromtimestamp(workloads.START / 1e6, dt.UTC)
    assert sorted(
        (key, *((window[edge] - origin) // dt.timedelta(minutes=1) for edge in ("start", "end")), n, total)
        for key, window, n, total in found.rows()
    ) == sorted(wanted)


ROWS = [(1, 0, 2, 10, 0.1), (1, 60, 1, 5, 0.3), (2, 0, 3, 7, 1e6)]


@pytest.fixture(scope="module")
def frame(spark):
    def make(rows):
        flat = spark.createDataFrame(rows, "key bigint, start bigint, records bigint, total bigint, total_d double")
        return flat.selectExpr(
            "key",
            "struct(timestamp_seconds(start) as start, timestamp_seconds(start + 60) as end) as window",
            "records",
            "total",
            "total_d",
        )

    return make


def changed(row, column, value):
    rows = [list(each) for each in ROWS]
    rows[row][column] = value
    return [tuple(each) for each in rows]


def test_rows_in_another_order_and_floats_within_the_bound_are_equal(frame):
    near = changed(2, 4, 1e6 * (1 + 9e-13))
    assert difference(frame(ROWS), frame(near[::-1])) is None


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (ROWS[:2], "3 rows, not 2"),
        ([*ROWS[:2], ROWS[1]], "hashes"),
        (changed(0, 0, 7), "hashes"),
        (changed(0, 1, 120), "hashes"),
        (changed(0, 2, 3), "hashes"),
        (changed(0, 3, 11), "hashes"),
        (changed(2, 4, 1e6 * (1 + 2e-12)), "1 rows have other floats"),
        (changed(2, 4, None), "1 rows have other floats"),
        (changed(2, 4, math.nan), "1 rows have other floats"),
        (changed(2, 4, math.inf), "1 rows have other floats"),
    ],
)
def test_a_wrong_row_is_a_difference(frame, other, why):
    assert why in difference(frame(ROWS), frame(other))


@pytest.fixture
def in_session(spark, tmp_path, monkeypatch):
    """Benchmarks run in the session of the tests, on workloads that are written for the test."""
    monkeypatch.setattr(measure, "session", lambda *cores: spark)
    for module in (measure, turns, workloads):
        monkeypatch.setattr(module, "FOLDER", tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_float_that_is_no_number_equals_itself_only(frame, value):
    odd = changed(2, 4, value)
    assert difference(frame(odd), frame(odd)) is None
    assert "1 rows have other floats" in difference(frame(odd), frame(ROWS))


def test_no_rows_prove_nothing(frame):
    assert difference(frame([]), frame([])) == "no rows at all"


def test_asv_finds_all_benchmarks():
    """What it imports and checks are the signatures of all benchmarks; it exits with 1 if one of them is wrong."""
    pytest.importorskip("asv")
    found = subprocess.run(
        [sys.executable, "-m", "asv", "check", "--python=same"], cwd=page.ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "No problems found" in found.stdout


TINY = workloads.Workload("tiny", 200, 3, 600, 5)
WINDOW = (TINY, "5 minutes", "1 minute")


def test_rows_by_explode_are_those_of_window(in_session):
    with (
        measure.parquet_of_bounded(SparkExploded("d"), *WINDOW) as ours,
        measure.parquet_of_bounded(SparkWindow("d"), *WINDOW) as theirs,
    ):
        assert difference(ours, theirs) is None


def test_what_a_stream_has_closed_are_the_bounded_rows_that_its_watermark_passed(in_session):
    with (
        measure.parquet_of_stream(SparkWindow(), *WINDOW) as stream,
        measure.parquet_of_bounded(SparkWindow(), *WINDOW) as bounded,
    ):
        assert difference(stream, measure.closed(bounded, TINY)) is None
        assert "rows, not" in difference(stream, bounded)


def test_a_stream_has_the_limit_of_batches_that_its_settings_say(in_session, spark, monkeypatch):
    before = spark.conf.get(BATCH_BYTES)
    with measure.configured(measure.Settings(batch_bytes="1MB"), {"spark.sql.slicing.test": "x"}):
        assert spark.conf.get(BATCH_BYTES) == "1MB"
        assert spark.conf.get("spark.sql.slicing.test") == "x"
    assert spark.conf.get(BATCH_BYTES) == before
    assert spark.conf.get("spark.sql.slicing.test", None) is None
    monkeypatch.setattr(goals, "turns", lambda *sides: [side.settings.batch_bytes for side in sides])
    assert goals.BatchBytes().sides() == ("64MB", UNLIMITED)


def test_streams_in_turns_count_the_micro_batches_of_streams_alone(in_session):
    history = workloads.Workload("tiny before", 100, 3, 600, 2)
    workload = replace(TINY, name="tiny with history", history=history)
    ours, theirs = Ours(), SparkWindow()
    short = measure.Settings(unsteady=1, steady=3, warm_up=0.0)
    window = (workload, "5 minutes", "1 minute")
    both = turns.turns(turns.Side(ours, *window, short), turns.Side(theirs, *window, replace(short, steady=2)))
    alone = [measure._once.__wrapped__(ours, *window, short), measure._once.__wrapped__(theirs, *window, short)]
    assert [rows for _, rows in both[0].each] == [rows for _, rows in alone[0].each]
    assert [rows for _, rows in both[1].each] == [rows for _, rows in alone[1].each][:2]
    assert [run.records for run in both] == [200, 200]
    assert all(rows > 0 for run in both for _, rows in run.each)
    assert both[0].checkpoint_bytes > 0
    assert not list(workloads.FOLDER.glob("tmp*")), "what they wait for is removed"


def test_micro_batches_take_turns_and_one_that_takes_too_long_is_stopped(in_session, monkeypatch):
    taken, real = [], turns._Fed.next

    def noted(stream):
        taken.append((type(stream.side.query).__name__, len(stream.progress)))
        real(stream)
        taken.append("done" if len(stream.progress) > taken[-1][1] else stream.running.isActive)

    monkeypatch.setattr(turns._Fed, "next", noted)
    short = measure.Settings(unsteady=1, steady=1, warm_up=0.0)
    quick, slow = (turns.Side(Ours(), *WINDOW, short), turns.Side(SparkWindow(), *WINDOW, replace(short, limit=0.0)))
    ours, theirs = turns.turns(slow, quick)[::-1]
    assert taken == [("SparkWindow", 0), False, ("Ours", 0), "done", ("SparkWindow", 0), False, ("Ours", 1), "done"]
    assert theirs.stopped
    assert not ours.stopped


def test_a_stream_that_fails_in_its_turn_says_why(in_session):
    def fails(frame, size, advance):
        return frame.selectExpr("assert_true(v < 0, 'as it was told to')")

    with pytest.raises(StreamingQueryException, match="as it was told to"):
        turns.turns(turns.Side(fails, *WINDOW, measure.Settings(steady=3, warm_up=0.0)))
