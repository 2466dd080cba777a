"""Calibration: what it measures without Spark, and a short stream whose micro-batches are counted as they are."""

import pytest

from slicing import hopping
from slicing.cli import calibrate
from slicing.cli.calibrate import CASES, Case, counted, in_process, main, run
from slicing.explain.coefficients import COUNTED, SHIPPED, Coefficients


def test_what_is_measured_without_spark_is_of_its_size():
    found = in_process()
    assert 0.01 < found["stored"] < 2
    assert 10 << 20 < found["worker"] < 4 << 30


def test_cases_differ_in_what_is_counted():
    """No two are the same, and there are as many as coefficients."""
    assert len(CASES) >= len(COUNTED)
    assert len({(case.records, case.keys, case.seconds, case.window) for case in CASES}) == len(CASES)
    table = CASES[0].table(1)
    assert table.num_rows == CASES[0].records
    assert table.equals(CASES[0].table(1))


def test_the_coefficients_are_written_where_they_are_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(calibrate, "measured", lambda: SHIPPED)
    assert main(["--output", str(tmp_path / "new" / "coefficients.json")]) == 0
    assert Coefficients.load(tmp_path / "new" / "coefficients.json") == SHIPPED
    assert "written to" in capsys.readouterr().err


@pytest.mark.slow
def test_a_stream_takes_some_time_and_has_the_counts_of_its_case(spark, tmp_path):
    case = Case(400, 20, 60, hopping("3 minutes", "1 minute"))
    plan, seconds = run(case, spark, tmp_path)
    counts = counted(case, plan, 2)
    assert 0 < seconds < 120
    assert counts.keys() == {*COUNTED, "spilled"}
    assert counts["spilled"] == 0
    assert counts["record"] == pytest.approx(200)
    assert counts["emitted"] == pytest.approx(10, rel=1e-3)
