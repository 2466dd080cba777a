"""`python -m slicing` as a user runs it, in a process of its own; wrong arguments without Spark."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slicing.__main__ import format_of_input, main, parse, result_of
from slicing.errors import InvalidValue
from slicing.spark.job import reason, with_time
from slicing.spark.session import BATCH_BYTES, _local_options

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 240


def records(count=600, seed=1):
    """Records of three keys over six hours, in order, with some empty values."""
    random = np.random.default_rng(seed)
    seconds = np.sort(random.integers(0, 6 * 3600, count))
    frame = pd.DataFrame({"symbol": random.choice(["a", "b", "c"], count), "price": random.integers(0, 1000, count)})
    frame["ts"] = pd.to_datetime(1_700_000_000 + seconds, unit="s", utc=True)
    frame["price"] = frame["price"].astype("Int64").mask(random.random(count) < 0.1)
    return frame


def write_csv(frame, path):
    frame.assign(ts=frame["ts"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")).to_csv(path, index=False)


def expected(frame, size, advance):
    """Per window and key the count of records and the mean price, with pandas: a copy of each record per window."""
    size, advance = pd.Timedelta(size), pd.Timedelta(advance)
    newest = frame["ts"].dt.floor(advance)
    copies = [frame.assign(start=newest - i * advance) for i in range(size // advance)]
    grouped = pd.concat(copies).groupby(["symbol", "start"])
    return grouped.agg(records=("ts", "size"), mean=("price", "mean")).astype({"mean": "float64"})


def command(*arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TZ": "UTC"}
    process = [sys.executable, "-m", "slicing", *map(str, arguments)]
    return subprocess.Popen(process, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def arguments(source, *more, size="30 minutes", advance="10 minutes"):
    common = [
        "--time",
        "ts",
        "--keys",
        "symbol",
        "--size",
        size,
        "--advance",
        advance,
        "--aggregate",
        "records=count()",
    ]
    return [source, *common, "--aggregate", "mean(price)", *more]


def test_bounded_csv_equals_pandas(tmp_path):
    frame = records()
    write_csv(frame, tmp_path / "in.csv.gz")
    process = command(*arguments(tmp_path / "in.csv.gz", "--output", tmp_path / "out.csv"))
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    wanted = expected(frame, "30min", "10min")
    assert f"{len(wanted):,} windows in {tmp_path / 'out.csv'}, from 600 records" in err
    made = pd.concat(pd.read_csv(part) for part in (tmp_path / "out.csv").glob("part-*.csv"))
    assert list(made.columns) == ["symbol", "window_start", "window_end", "records", "mean_price"]
    made["window_start"] = pd.to_datetime(made["window_start"], utc=True)
    made = made.set_index(["symbol", "window_start"]).sort_index()
    assert made.index.tolist() == wanted.sort_index().index.tolist()
    assert made["records"].tolist() == wanted.sort_index()["records"].tolist()
    np.testing.assert_allclose(made["mean_price"], wanted.sort_index()["mean"], rtol=1e-15)


def test_follow_prints_progress_and_ends_on_ctrl_c(tmp_path):
    frame = records()
    source = tmp_path / "in"
    source.mkdir()
    for i in range(3):
        write_csv(frame.iloc[200 * i : 200 * (i + 1)], source / f"{i}.csv")
        os.utime(source / f"{i}.csv", (1000 + i, 1000 + i))
    out = tmp_path / "out.json"
    process = command(*arguments(source, "--follow", "--delay", "0 seconds", "--max-files", 1, "--output", out))
    lines = until(process, lambda line: line.startswith("micro-batch 3:"))
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, "".join(lines) + rest
    assert "stopped; windows still open are kept in the checkpoint" in rest
    assert "Traceback" not in "".join(lines) + rest
    assert (tmp_path / "out.json.checkpoint").is_dir()

    progress = [line for line in lines if line.startswith("micro-batch")]
    assert [re.search(r"([\d,]+) records", line)[1] for line in progress] == ["200", "200", "200", "0"]
    closed = expected(frame, "30min", "10min")
    closed = closed[closed.index.get_level_values("start") + pd.Timedelta("30min") <= frame["ts"].max()]
    rows = [json.loads(line) for part in out.glob("part-*.json") for line in part.read_text().splitlines()]
    made = {(row["symbol"], pd.Timestamp(row["window"]["start"])): row for row in rows}
    assert len(rows) == len(made)
    assert made.keys() == set(closed.index)
    assert all(made[key]["records"] == count for key, count in closed["records"].items())
    assert sum(int(re.search(r"([\d,]+) results?\b", line)[1].replace(",", "")) for line in progress) == len(rows)


def until(process, found):
    """The lines of stderr up to the one that is looked for. Ends the process if that takes too long."""
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found(line):
            break
    watchdog.cancel()
    return lines


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.csv"
    write_csv(records(5), path)
    return path


WRONG = [
    (["--size", "1 month"], "no fixed length"),
    (["--size", "7"], "a duration needs a unit"),
    (["--advance", "-1 hour"], "`advance` must be positive"),
    (["--aggregate", "price"], "takes FUNCTION(COLUMN)"),
    (["--aggregate", "median(price)"], "is not an aggregate. Known are count, first"),
    (["--aggregate", "sum()"], "missing a required argument"),
    (["--aggregate", "sum(a, b)"], "too many positional arguments"),
    (["--aggregate", "mean(price)"], "two results are called `mean_price`"),
    (["--output", "out.txt"], "must end in .csv, .json or .parquet"),
    (["--follow"], "watches a directory"),
    (["--checkpoint", "c"], "Add --follow"),
    (["--limit", "0"], "must be positive"),
    (["--grace", "-1 hour"], "must not be negative"),
    (["--sizes", "1 hour"], "unrecognized arguments"),
]


@pytest.mark.parametrize(("more", "message"), WRONG)
def test_wrong_arguments_are_one_line_before_spark_starts(source, capsys, monkeypatch, more, message):
    monkeypatch.setattr("slicing.__main__.run", lambda *_: pytest.fail("Spark would have been started"))
    try:
        code = main(list(map(str, arguments(source, *more))))
    except SystemExit as ended:
        code = ended.code
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_missing_file_is_an_error_of_the_process(tmp_path):
    began = time.monotonic()
    process = command(*arguments(tmp_path / "none.csv"))
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert err == f"error: `{tmp_path}/none.csv` does not exist. INPUT is a file or a directory.\n"
    assert time.monotonic() - began < 60


def test_existing_output_is_refused(source, tmp_path):
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(InvalidValue, match="must not exist yet"):
        parse(list(map(str, arguments(source, "--output", tmp_path / "out.csv"))))


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.csv", "csv"),
        ("a.CSV.gz", "csv"),
        ("a.jsonl.gz", "json"),
        ("a.json", "json"),
        ("a.snappy.parquet", "parquet"),
    ],
)
def test_format_is_that_of_the_extension(tmp_path, name, format_):
    (tmp_path / name).touch()
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part.json.crc").touch()
    assert format_of_input(tmp_path / name) == format_
    assert format_of_input(tmp_path) == format_


@pytest.mark.parametrize(("names", "message"), [(["a.csv", "b.json"], "one format"), ([], "known format")])
def test_directory_must_hold_one_known_format(tmp_path, names, message):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(InvalidValue, match=message):
        format_of_input(tmp_path)


@pytest.mark.parametrize(
    ("text", "name", "columns"),
    [
        ("mean(price)", "mean_price", ("price",)),
        (" avg = mean( price ) ", "avg", ("price",)),
        ("count()", "count", ()),
        ("count(*)", "count", ()),
        ("count(`fee`)", "count_fee", ("fee",)),
    ],
)
def test_aggregates_are_read(text, name, columns):
    found, bound = result_of(text)
    assert (found, bound.columns) == (name, columns)


def test_time_in_text_is_cast_and_in_numbers_refused(spark, tmp_path):
    from slicing.errors import InvalidType

    frame = spark.createDataFrame([("2024-05-01T12:00:00Z", 1714564800), ("soon", 0)], "text string, epoch long")
    times = with_time(frame, "text").selectExpr("unix_micros(text)").collect()
    assert [row[0] for row in times] == [1714564800000000, None]
    with pytest.raises(InvalidType, match=r"got bigint, .* `F.timestamp_seconds\(\"epoch\"\)`"):
        with_time(frame, "epoch")
    with pytest.raises(InvalidValue, match="`when` does not exist; the columns are text, epoch"):
        with_time(frame, "when")


def test_spark_knows_the_setting_that_arrow_batches_have_no_limit_of_bytes(spark, tmp_path):
    spark.conf.set(BATCH_BYTES, _local_options(tmp_path)[BATCH_BYTES])
    try:
        # Spark does not measure batches at this very value.
        assert spark._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch() == 2**31 - 1
    finally:
        spark.conf.unset(BATCH_BYTES)
    assert spark._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch() == 64 << 20


def test_reason_is_the_frameworks_own_message():
    text = (
        "[PYTHON_EXCEPTION] failed\nTraceback\nslicing.errors.ResultOverflow: `sum(x)` of a window must fit.\nat java"
    )
    assert reason(RuntimeError(text)) == "`sum(x)` of a window must fit."
    assert reason(RuntimeError("[SOME_ERROR] first line\nmore")) == "[SOME_ERROR] first line"
