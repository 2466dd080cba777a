"""Lines of benchmarks that others define are measured in turns, and kept one by one."""

import types
from dataclasses import asdict
from functools import partial

import pytest

pytest.importorskip("polars", reason="the packages of the group `bench` are not installed")
pytest.importorskip("matplotlib", reason="the packages of the group `bench` are not installed")

from benchmarks.public import __main__ as command
from benchmarks.public import fixed, measuring
from benchmarks.public.catalogue import LINES, line
from benchmarks.public.table import table
from benchmarks.report import guide, page, results
from benchmarks.running.resuming import Measured
from benchmarks.running.run import Run

OF_SIDES = {
    "spark": [Run(4.0, 150_000, stopped=True), Run(3.0, 150_000, processor=6.0), Run(3.5, 150_000, processor=7.0)],
    "ours": [Run(2.0, 150_000, processor=1.5), Run(1.5, 150_000, processor=2.0), Run(1.8, 150_000, processor=2.0)],
}


@pytest.mark.parametrize(("differs", "ratio"), [(None, 2.0), ("ours: 3 rows, not 4", None)])
def test_the_best_turn_of_each_side_counts_and_lines_are_kept_one_by_one(monkeypatch, tmp_path, capsys, differs, ratio):
    asked, turns = [], {part: iter([asdict(run) for run in runs]) for part, runs in OF_SIDES.items()}

    def answer(line, part):
        asked.append((line.title, part))
        return differs if part == "check" else next(turns[part])

    monkeypatch.setattr(measuring, "answer", answer)
    monkeypatch.setattr(measuring, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(command, "Measured", partial(Measured, folder=tmp_path / "ran"))
    monkeypatch.setattr("sys.argv", ["public", "--resume", "--only", "Nexmark q8", "--turns", "3"])
    assert command.main() == (differs is not None)
    assert asked == [("q8", part) for part in ("check", *["spark", "ours"] * 3)]
    (kept,) = results.kept(tmp_path / "kept")
    assert (kept.ratio, kept.baseline.seconds, kept.ours.seconds) == (ratio, 3.0, 1.5)
    assert "| 50 / 100 | 25 / 75 |" in capsys.readouterr().out
    assert command.main() == 0
    assert len(asked) == 7, "it is not measured again"


def test_measured_lines_are_written_into_the_page_and_others_stay(monkeypatch, tmp_path):
    monkeypatch.setattr(measuring, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(measuring, "answer", lambda line, part: asdict(OF_SIDES[part][1]) if part != "check" else None)
    results.keep(measuring.measured(line("Nexmark q8"), 1), measuring.FOLDER)
    path = tmp_path / "performance.md"
    q7, old = ("| Nexmark q7 against Spark | - |", "| Nexmark q8 against Spark | old |")
    path.write_text(f"Above\n\n<!-- public -->\n{old}\n{q7}\n<!-- end of public -->\n\nBelow\n")
    command.write(path)
    written = path.read_text()
    assert written.startswith("Above\n\n<!-- public -->\n| benchmark and query |")
    assert f"|\n{q7}\n| Nexmark q8 against Spark |  | 2 | 50 / 100 |" in written
    assert "old" not in written
    assert written.endswith("|\n<!-- end of public -->\n\nBelow\n")


def test_the_page_has_only_lines_of_the_catalogue():
    written = guide.part(page.GUIDE.read_text(), command.PART)
    assert table([], written) == written, "a line has another name, or another place"


def test_no_line_begins_when_the_minutes_are_over(monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(measuring, "measured", lambda line, turns: asked.append(line))
    monkeypatch.setattr(measuring, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(command, "Measured", partial(Measured, folder=tmp_path / "ran"))
    monkeypatch.setattr("sys.argv", ["public", "--resume", "--only", "Nexmark q8", "--minutes", "0"])
    assert command.main() == 0
    assert asked == []
    assert "not measured in 0 minutes: Nexmark q8" in capsys.readouterr().out


def test_what_is_left_without_work_is_that_of_a_hundredth_of_the_events(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(fixed.stream, "run", lambda side: ran.append(side) or Run(side.workload.records / 1e5, 1))
    monkeypatch.setattr(fixed, "stop", lambda: None)
    monkeypatch.setattr("sys.argv", ["fixed", "--only", "q5, 60"])
    fixed.main()
    every, few = (side.workload for side in ran)
    assert few.total * 100 == every.total
    assert (few.seconds, few.batches) == (every.seconds, every.batches), "the same event time"
    assert capsys.readouterr().out.endswith("| Nexmark q5, 60 minutes by 1 minute | 1.50 | 0.01 |\n")


def test_a_stopped_run_has_no_time_that_is_left(monkeypatch, capsys):
    monkeypatch.setattr(fixed.stream, "run", lambda side: Run(400.0, 1, stopped=True))
    monkeypatch.setattr(fixed, "stop", lambda: None)
    monkeypatch.setattr("sys.argv", ["fixed", "--only", "q5, 60"])
    fixed.main()
    assert capsys.readouterr().out.endswith("| Nexmark q5, 60 minutes by 1 minute | stopped | stopped |\n")


def test_a_process_that_fails_says_why(monkeypatch):
    failed = types.SimpleNamespace(returncode=1, stdout="", stderr="no memory")
    monkeypatch.setattr(measuring.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="Nexmark q7, check, has failed, and said last: no memory"):
        measuring.measured(line("Nexmark q7"), 1)


def test_lines_have_names_of_their_own_and_the_micro_batches_that_they_count():
    assert len({each.name for each in LINES}) == len(LINES)
    assert all(each.query.flink for each in LINES if "Flink" in each.against)
    sides = [each.side(of) for each in LINES for of in ("ours", "spark")]
    assert {(side.batches, side.settings.steady) for side in sides} == {(20, 4), (40, 8)}
