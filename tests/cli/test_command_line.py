"""`python -m slicing` as a user runs it, in a process of its own; all else without, and mostly without Spark."""

import gzip
import json
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from conftest import SPARK
from pyspark.sql import Row

from slicing import cumulating, group_by, hopping, session, tumbling
from slicing.cli import console as voice
from slicing.cli import state
from slicing.cli.console import command_line_message, failure
from slicing.cli.job import InputCounts, figures, keep_log, once
from slicing.cli.main import main
from slicing.cli.parsing import _windows, format_of_input, parse, parser
from slicing.cli.results import result_of
from slicing.cli.session import BATCH_BYTES, _local_options
from slicing.errors import InvalidType, InvalidValue, MissingRequirement, ResultOverflow, StateMismatch, reason
from slicing.spark.columns import kind_of_type
from slicing.spark.progress import micro_batch
from slicing.spark.requirements import setting_remedy
from slicing.spark.versions import COMMAND_LINE
from slicing.windows.sets import windows_of_call

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 3600
"""Seconds after which a process hangs for certain; no test passes or fails by the time that it takes."""


def records(count=600, seed=1):
    """Records of three keys over six hours, in order, with some empty values."""
    random = np.random.default_rng(seed)
    seconds = np.sort(random.integers(0, 6 * 3600, count))
    frame = pd.DataFrame({"symbol": random.choice(["a", "b", "c"], count), "price": random.integers(0, 1000, count)})
    frame["ts"] = pd.to_datetime(1_700_000_000 + seconds, unit="s", utc=True)
    frame["price"] = frame["price"].astype("Int64").mask(random.random(count) < 0.1)
    return frame


def write_csv(frame, path, columns=None):
    frame = frame[columns or list(frame.columns)]
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
    windows = ["--size", size, "--advance", advance]
    common = ["--time", "ts", "--keys", "symbol", *windows, "--aggregate", "records=count()"]
    return [source, *common, "--aggregate", "mean(price)", *more]


runs = pytest.mark.skipif(SPARK < COMMAND_LINE, reason="the command line needs Spark 4.1")


@runs
@pytest.mark.versions
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "windows"),
    [
        (["--size", "1 hour"], {("30min", "10min"), ("1h", "10min")}),
        (["--size", "1 hour", "--advance", "20 minutes"], {("30min", "10min"), ("1h", "20min")}),
    ],
)
def test_several_sizes_in_one_run_equal_pandas(spark, tmp_path, more, windows):
    """One advance is that of all sizes."""
    frame, out = records(), tmp_path / "out.csv"
    write_csv(frame, tmp_path / "in.csv")
    assert once(parse(list(map(str, arguments(tmp_path / "in.csv", *more, "--output", out)))), spark) == 0
    made = pd.concat(pd.read_csv(part, parse_dates=["window_start", "window_end"]) for part in out.glob("part-*.csv"))
    made = made.set_index(["symbol", "window_start"])
    found = dict(list(made.groupby(made["window_end"] - made.index.get_level_values("window_start"))))
    assert found.keys() == {pd.Timedelta(size) for size, _ in windows}
    for size, advance in windows:
        wanted, rows = expected(frame, size, advance).sort_index(), found[pd.Timedelta(size)].sort_index()
        assert rows["records"].to_dict() == wanted["records"].to_dict()
        np.testing.assert_allclose(rows["mean_price"], wanted["mean"], rtol=1e-15)


def test_windows_with_a_tail_are_those_of_python(source):
    """One tail is that of all sizes; a size has none with "none"."""
    hour, day = ["--size", "1 hour"], ["--size", "1 day"]
    plain = [str(source), "--time", "ts", "--advance", "1 minute", "--aggregate", "count()"]
    long = hopping("1 day", "1 minute", tail="1 hour")
    for given, wanted in [
        ([*day, "--tail", "1 hour"], [long]),
        ([*hour, *day, "--tail", "none", "--tail", "1 hour"], [hopping("1 hour", "1 minute"), long]),
        ([*hour, *day, "--tail", "1 hour"], [hopping("1 hour", "1 minute", tail="1 hour"), long]),
        (hour, [hopping("1 hour", "1 minute")]),
    ]:
        assert _windows(parser().parse_args([*plain, *given])) == wanted


def test_several_sizes_without_an_advance_tumble(source):
    plain = [source, "--time", "ts", "--size", "1 hour", "--size", "7 minutes", "--aggregate", "count()"]
    parse(list(map(str, plain)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--keys", "user=bob"], "Add `--define MODULE:NAME`"),
        (["--latest", "--windows", "1 hour"], "--windows, --latest look up windows"),
        (["--define", "jobs.py"], "a colon and a name; got `jobs.py`"),
        (["--define", "jobs:made", "--keys", "bob"], "as user=bob,card=7, or `user is null`; got `bob`"),
        (["--define", "jobs:made", "--keys", "=bob"], "got `=bob`"),
        (["--define", "jobs:made", "--windows", "seven every day"], "seven"),
        (["--define", "jobs:made", "--windows", "1 hour every 2 hours"], "advance"),
        (["--define", "jobs:made", "--starts", "2024-05-01"], "two instants with a comma between"),
        (["--define", "jobs:made", "--starts", "noon,"], "ISO form, as 2024-05-01T11:29; got `noon`"),
        (["--define", "jobs:made", "--why", "noon"], "ISO form"),
        (["--define", "jobs:made", "--why", "2024-05-01", "--latest"], "`--why` is of one window of one key"),
        (["--define", "jobs:made", "--limit", "0"], "`--limit` must be positive"),
        (["--define", "nowhere_at_all:made"], ""),
    ],
)
def test_what_state_cannot_be_asked_is_refused_before_spark_starts(arguments, message):
    if message:
        with pytest.raises(InvalidValue, match=re.escape(message)):
            state.parse(["checkpoint", *arguments])
    else:
        with pytest.raises(InvalidValue, match="cannot be read: ModuleNotFoundError"):
            state.definition(None, arguments[1])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1,b=x=y", {"a": "1", "b": "x=y"}),
        ("b=, a = 2", {"a": " 2", "b": ""}),
        ("a=1,2,b=x,y", {"a": "1,2", "b": "x,y"}),
        ("a is null,b=is null", {"a": None, "b": "is null"}),
        ("a=a is null,b IS NULL", {"a": "a is null", "b": None}),
        ("a=x,y=z", {"a": "x,y=z"}),
        ("a=x,a=y", {"a": "x,a=y"}),
        ("a is null", {"a": None}),
    ],
)
def test_keys_in_text(text, values):
    assert state._values(text, sorted(values)) == values


def test_modules_beside_a_definition_are_those_of_its_folder(tmp_path, monkeypatch):
    """Workers do not find them; those of an environment below the folder are found, and not sent."""
    environment, sent = tmp_path / "venv", []
    (tmp_path / "beside_package").mkdir()
    environment.mkdir()
    (environment / "installed_below.py").write_text("")
    for name in ("beside_package/__init__", "beside_package/part", "beside_module"):
        (tmp_path / f"{name}.py").write_text("")
    text = "import beside_module, beside_package.part, installed_below, uuid\nfrom slicing import InvalidType as made\n"
    (tmp_path / "asked.py").write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path, str(environment)])
    monkeypatch.setattr("pyspark.cloudpickle.register_pickle_by_value", lambda module: sent.append(module.__name__))
    with pytest.raises(InvalidType, match="must be what"):
        state.definition(None, f"{tmp_path}/asked.py:__name__")
    assert sorted(sent) == ["_slicing_define_asked", "beside_module", "beside_package"]


def test_what_state_is_asked():
    asked = state.parse(
        ["here", "--define", "m:d", "--keys", "a=1,b=x=y", "--keys", "a=2,b=", "--starts", ",2024-05-01T01:00"]
    )
    assert asked.keys == ("a=1,b=x=y", "a=2,b=")
    assert asked.starts == (None, 1_714_525_200_000_000)
    windows = state.parse(["here", "--define", "m:d", "--windows", "7 minutes every 1 minute", "--windows", "1 hour"])
    assert windows.windows == (hopping("7 minutes", "1 minute"), hopping("1 hour", "1 hour"))


@pytest.mark.slow
@runs
@pytest.mark.versions
def test_follow_prints_progress_and_ends_on_ctrl_c(tmp_path):
    """The second file has its columns in another order, the third two lines that cannot be read."""
    frame = records()
    source = tmp_path / "in"
    source.mkdir()
    for i, columns in enumerate((["symbol", "price", "ts"], ["ts", "price", "symbol"], ["symbol", "price", "ts"])):
        write_csv(frame.iloc[200 * i : 200 * (i + 1)], source / f"{i}.csv", columns)
    with (source / "2.csv").open("a") as file:
        file.write("a,5,11/14/2023\nbroken\n")
    with (source / "1.csv").open("a") as file:
        file.write("9999-12-31T00:00:00Z,1,a\n")  # it would end all windows, and with them the stream
    for i in range(3):
        os.utime(source / f"{i}.csv", (1000 + i, 1000 + i))
    out = tmp_path / "out.json"
    process = command(*arguments(source, "--follow", "--delay", "0 seconds", "--max-files", 1, "--output", out))
    lines = until(process, lambda line: line.startswith("micro-batch 3:"))
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, "".join(lines) + rest
    assert "stopped; windows still open are kept in the checkpoint" in rest
    assert "error: 2 of 603 records could not be read and are in no window, for example " in rest
    assert "Traceback" not in "".join(lines) + rest
    assert (tmp_path / "out.json.checkpoint").is_dir()

    progress = [line for line in lines if line.startswith("micro-batch")]
    assert [re.search(r"([\d,]+) records", line)[1] for line in progress] == ["200", "201", "202", "0"]
    assert [line.endswith(", 2 unreadable\n") for line in progress] == [False, False, True, False]
    assert ["1 implausible" in line for line in progress] == [False, True, False, False]
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
    ({"size": "1 month"}, "need a zone"),
    ({"size": "7"}, "a duration needs a unit"),
    ({"advance": "-1 hour"}, "`advance` must be positive"),
    (["--aggregate", "price"], "takes FUNCTION(COLUMN)"),
    (["--aggregate", "medium(price)"], "is not an aggregate. Known are any,"),
    (["--aggregate", "sum()"], "missing a required argument"),
    (["--aggregate", "sum(a, b)"], "too many positional arguments"),
    (["--aggregate", "mean(price)"], "two results are called `mean_price`"),
    (["--output", "out.txt"], "must end in .csv, .json or .parquet"),
    (["--follow"], "watches a directory"),
    (["--checkpoint", "c"], "Add --follow"),
    (["--limit", "0"], "must be positive"),
    (["--grace", "-1 hour"], "must not be negative"),
    (["--sizes", "1 hour"], "unrecognized arguments"),
    (["--session", "1 hour"], "`--session` goes without --size, --advance: records decide"),
    (["--delay", "1 hour"], "`--delay` is for streams"),
    (["--time-unit", "ns"], "invalid choice: 'ns'"),
    ({"advance": "1 hour"}, 'write --size "1 hour" --advance "30 minutes". If such gaps are meant, add --gaps.'),
    ({"advance": "0 hours"}, "For windows that do not overlap leave out --advance."),
    (["--offset", "90 minutes"], '--offset "0 seconds" makes the same windows'),
    (["--advance", "1 minute"], "once for all sizes or once for each; got 2 for 1 size. The first goes with"),
    (["--size", "1 hour", "--size", "1 day", "--advance", "1 minute"], "got 2 for 3 sizes."),
    (["--size", "30 minutes"], '--size "30 minutes" --advance "10 minutes" make windows of the same interval'),
    (["--size", "30 minutes"], "could not be distinguished. Leave one out."),
    (["--tail", "15 minutes"], 'got 15 minutes and 10 minutes. Write for example --tail "10 minutes".'),
    (["--tail", "1 hour"], "`tail` must not be longer than `size`"),
    (["--tail", "10 minutes", "--tail", "none"], "`--tail` is given once for all sizes or once for each; got 2 for 1"),
    (["--session", "1 hour", "--tail", "1 hour"], "`--session` goes without --size, --advance, --tail"),
    (["--size", "1 hour", "--cumulate", "1 minute"], "`--cumulate` goes without --advance"),
    (["--output", "/dev/null/out.csv"], "`--output` cannot be written: not a directory; got `/dev/null/out.csv`"),
]


@pytest.mark.parametrize(("more", "message"), WRONG)
def test_wrong_arguments_are_one_line_before_spark_starts(source, capsys, monkeypatch, more, message):
    monkeypatch.setattr("slicing.cli.main.run", lambda *_: pytest.fail("Spark would have been started"))
    try:
        given = arguments(source, **more) if isinstance(more, dict) else arguments(source, *more)
        code = main(list(map(str, given)))
    except SystemExit as ended:
        code = ended.code
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize(
    ("files", "more", "message"),
    [
        (
            {"a.csv": "ts,symbol,price\n", "b.csv": "ts,Symbol,price\n"},
            (),
            "b.csv` has no column `symbol`; its columns",
        ),
        ({"a.csv": "ts,symbol,ts,price\n"}, (), "2 columns called `ts`"),
        ({"symbol=x/a.csv": "ts,symbol,price\n", "symbol=x/b.csv": "ts\n"}, (), "b.csv` has no column `price`"),
        ({"a.csv.gz": "ts,symbol,price\n"}, (), "cannot be read as CSV; got BadGzipFile"),
        ({"a.parquet": pa.table({"ts": [1], "symbol": ["a"]})}, (), "a.parquet` has no column `price`; its columns"),
        ({"a.parquet": ""}, (), "cannot be read as Parquet"),
        ({"a[1].csv": "ts,symbol,price\n"}, ("--follow",), "`--follow` takes no path with one of"),
        ({"a.csv.zst": ""}, ("--follow",), "`--follow` reads CSV files that are plain, .gz or .bz2"),
    ],
)
def test_headers_are_read_before_spark_starts(tmp_path, capsys, monkeypatch, files, more, message):
    monkeypatch.setattr("slicing.cli.main.run", lambda *_: pytest.fail("Spark would have been started"))
    for name, content in files.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        else:
            pq.write_table(content, path)
    assert main(list(map(str, arguments(tmp_path / "in", *more)))) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_what_only_spark_can_read_does_not_keep_it_from_starting(tmp_path, monkeypatch):
    """JSON has no header, Python knows no zstd, and a file without a line may have others beside it."""
    monkeypatch.setattr("slicing.cli.main.run", lambda _: 7)
    for name in ("json/a.json", "zst/a.csv.zst", "empty/a.csv"):
        path = tmp_path / name
        path.parent.mkdir()
        path.touch()
        assert main(list(map(str, arguments(path.parent)))) == 7


def test_missing_file_is_an_error_of_the_process(tmp_path):
    """If Spark were started, stderr would say so."""
    process = command(*arguments(tmp_path / "none.csv"))
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert err == f"error: `{tmp_path}/none.csv` does not exist. INPUT is a file or a directory.\n"


def test_help_needs_no_pyspark():
    program = "import sys; sys.modules['pyspark'] = None; from slicing.__main__ import main; main(['--help'])"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "over hopping (overlapping) windows" in ended.stdout
    assert [int(code) for code in re.findall(r"^  (\d+) ", ended.stdout, re.MULTILINE)] == [0, 1, 2, 3, 130]


def test_reading_without_pyspark_says_how_to_get_it(source, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "slicing.cli.job", None)
    assert main(list(map(str, arguments(source)))) == 2
    assert "pip install 'spark-slicing[spark]'" in capsys.readouterr().err


@pytest.mark.versions
def test_an_older_spark_is_refused_by_name(source, monkeypatch, capsys):
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    assert main(list(map(str, arguments(source)))) == 2
    said = capsys.readouterr().err
    assert "the command line needs Spark 4.1 or newer; found 4.0.5." in said
    assert "pip install 'spark-slicing[spark]'" in said


def test_existing_output_is_refused(source, tmp_path):
    (tmp_path / "out.csv").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere")
    for name in ("out.csv", "link.csv"):
        with pytest.raises(InvalidValue, match="must not exist yet"):
            parse(list(map(str, arguments(source, "--output", tmp_path / name))))


def test_outputs_are_tried_and_leave_no_trace(source, tmp_path):
    parse(list(map(str, arguments(source, "--output", tmp_path / "a" / "b" / "out.csv"))))
    following = ["--follow", "--output", tmp_path / "out" / "out.csv"]
    (tmp_path / "in").mkdir()
    source.rename(tmp_path / "in" / "in.csv")
    parse(list(map(str, arguments(tmp_path / "in", *following))))
    with pytest.raises(InvalidValue, match=r"`--checkpoint` cannot be written: not a directory"):
        parse(list(map(str, arguments(tmp_path / "in", *following, "--checkpoint", tmp_path / "in" / "in.csv" / "c"))))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


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


def test_odd_names_of_files_and_columns(spark, tmp_path, capsys):
    """Brackets, stars, backticks, dots, control characters; a time in the year 10000, and three that are not right."""
    source = tmp_path / "in [1]*.csv.gz"
    with gzip.open(source, "wt") as file:
        file.write("a`t.s,k `1`.x,pri`ce\n2024-05-01,\x1b[31m,1\n+10000-01-01,b,2\n5/1/24,b,3\nbroken\n,b,4\n")
    common = [source, "--time", "a`t.s", "--keys", "k `1`.x", "--size", "1 day", "--aggregate", "n=sum(`pri``ce`)"]
    assert once(parse(list(map(str, common))), spark) == 3
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["\\x1b[31m", "2024-05-01", "00:00:00", "2024-05-02", "00:00:00", "1"],
        ["b", "+10000-01-01", "00:00:00", "+10000-01-02", "00:00:00", "2"],
    ]
    assert "2 windows, 2 shown, from 5 records" in err
    assert "; without time, and so in no window: 1 record\n" in err
    assert "error: 2 of 5 records could not be read and are in no window, for example 'broken'" in err
    output = tmp_path / "out [1].json"
    assert once(parse(list(map(str, [*common, "--allow-bad", "--output", output]))), spark) == 0
    made = [json.loads(line) for part in output.glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(row["n"] for row in made) == [1, 2]


def test_windows_that_records_decide_are_asked_for_by_one_duration(spark, tmp_path, capsys):
    source = tmp_path / "in.csv"
    source.write_text("ts,k\n2024-05-01 12:00:00,a\n2024-05-01 12:30:00,a\n2024-05-01 13:00:01,a\n", encoding="utf-8")
    job = parse([str(source), "--time", "ts", "--keys", "k", "--session", "30 minutes", "--aggregate", "n=count()"])
    assert once(job, spark) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["a", "2024-05-01", "12:00:00", "2024-05-01", "13:00:00", "2"],
        ["a", "2024-05-01", "13:00:01", "2024-05-01", "13:30:01", "1"],
    ]
    job = parse([str(source), "--time", "ts", "--keys", "k", "--sliding", "31 minutes", "--aggregate", "n=count()"])
    assert once(job, spark) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [(row[2], row[-1]) for row in rows] == [
        ("11:29:00", "1"),
        ("11:59:00", "2"),
        ("12:00:00.001", "1"),
        ("12:29:01", "2"),
        ("12:30:00.001", "1"),
    ]
    with pytest.raises(InvalidValue, match="`--session` goes without --sliding"):
        parse([str(source), "--time", "ts", "--session", "1 hour", "--sliding", "1 hour", "--aggregate", "n=count()"])
    with pytest.raises(InvalidValue, match="`--size` is needed"):
        parse([str(source), "--time", "ts", "--aggregate", "n=count()"])


PYTHON = re.compile(r"F\.|\.\w+\(|withColumn|spark\.conf|timedelta|\w+=['\"T]|hopping|tumbling|group_by")


def errors_of_the_library(spark):
    """Errors that arguments of the command line can lead to, as the library says them."""
    frame = spark.createDataFrame([], "ts timestamp, symbol string, tags array<string>, m map<string,int>, v variant")
    windowed = group_by(frame, "symbol").window(tumbling("1 hour"), time="ts")
    calls = [
        lambda: hopping("1 minute", "1 hour", offset="5 seconds"),
        lambda: hopping("1 hour", "0 seconds"),
        lambda: hopping("1 hour", "1 minute", offset="90 seconds"),
        lambda: hopping("1 hour", 7),
        lambda: group_by(frame, "tags").window(tumbling("1 hour"), time="ts").aggregate(n=result_of("count()")[1]),
        lambda: group_by(frame, "ts", "TS").window(tumbling("1 hour"), time="ts").aggregate(n=result_of("count()")[1]),
        lambda: windowed.aggregate(n=result_of("sum(symbol)")[1]),
        lambda: windowed.aggregate(n=result_of("stddev(symbol)")[1]),
        lambda: windowed.aggregate(n=result_of("max(m)")[1]),
        lambda: windowed.aggregate(n=result_of("first(v)")[1]),
        lambda: windowed.aggregate(symbol=result_of("count()")[1]),
        lambda: kind_of_type(frame.schema["v"].dataType, "v", "column"),
    ]
    for call in calls:
        with pytest.raises((InvalidType, InvalidValue)) as raised:
            call()
        yield raised.value
    yield MissingRequirement("streams need RocksDB. ", setting_remedy("a.b", "c.D"))


def test_remedies_are_those_of_the_command_line(spark, capsys):
    errors = list(errors_of_the_library(spark))
    for error in errors:
        found, message = command_line_message(error), str(error)
        assert not PYTHON.search(found), found
        assert found.partition(". ")[0].split("; got")[0] == message.partition(". ")[0].split("; got")[0]
        assert command_line_message(pickle.loads(pickle.dumps(error))) == found
    assert sum(PYTHON.search(str(error)) is not None for error in errors) > 9, "the pattern finds Python's words"
    assert 'write --size "1 hour" --advance "1 minute" --offset "5 seconds"' in command_line_message(errors[0])
    assert 'got --size "1 minute", --advance "1 hour". If' in command_line_message(errors[0])
    assert command_line_message(errors[-1]).endswith("Set --conf a.b=c.D.")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: cumulating("1 day", "7 hours"), "`size` must be a multiple of `--cumulate`; got 1 day and 7 hours."),
        (lambda: cumulating("1 day", "-7 hours"), "`--cumulate` must be positive; got '-7 hours'."),
        (
            lambda: cumulating("1 month", "1 week", zone="UTC"),
            'For example "1 month" with --cumulate "1 day".',
        ),
        (lambda: cumulating("1 day", "1 hour", offset="2 days"), '--offset "0 seconds" makes the same windows.'),
        (
            lambda: windows_of_call([hopping("7 days", "1 day", zone="UTC")] * 2, {}, long=False),
            '--size "7 days" --advance "1 day" --zone "UTC" make windows of the same interval, whose rows could not be '
            "distinguished. Leave one out.",
        ),
        (lambda: hopping("1 month", "1 day"), 'Write for example --zone "Europe/Berlin" or --zone "UTC".'),
        (lambda: hopping("1 month", "1 day", zone="UTC"), 'that move by minutes or hours have a --tail "1 day".'),
        (
            lambda: hopping("1 day", "1 day", offset="2 days", zone="UTC"),
            '`advance`, 1 day; got --offset "2 days". Take the rest of it.',
        ),
        (lambda: session("7 moons"), "Known are microsecond, millisecond, second, minute, hour, day, week."),
    ],
)
def test_arguments_are_options_in_messages(made, message):
    with pytest.raises(InvalidValue) as raised:
        made()
    assert command_line_message(raised.value).endswith(message)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ResultOverflow("`sum(x)` must fit bigint; got 9. Cast it."), "Cast it. On the command line: write larger"),
        (StateMismatch("Different: x. Start anew."), "anew. On the command line: choose another --checkpoint and"),
        (InvalidValue("`x` must differ."), "`x` must differ."),
    ],
)
def test_errors_of_workers_are_followed_by_what_to_do_here(error, remedy):
    text = "[STREAM_FAILED]\n" + "".join(traceback.format_exception(error))
    assert remedy in failure(text)
    assert failure(text).startswith(str(error))
    assert failure("Spark's own\nerror") == "Spark's own"


def test_several_windows_are_the_options_of_each():
    several = windows_of_call([tumbling("1 hour"), hopping("1 day", "1 hour")], {}, long=False)
    error = InvalidValue("of ", several.written, ".")
    assert command_line_message(error) == 'of --size "1 hour" --size "1 day" --advance "1 hour".'
    assert str(error) == f"of {several!r}."


def test_control_characters_are_shown_and_not_sent(capsys):
    voice.print_table(["na\x07me", "n"], [["\x1b[2J\n", "1"], ["é日", "22"]], [False, True])
    voice.say("file \x1b[2J")
    voice.complain("no\nfile \x1b", 2)
    out, err = capsys.readouterr()
    assert out.splitlines() == ["na\\x07me    n", "---------  --", "\\x1b[2J\\n   1", "é日         22"]
    assert err == "file \\x1b[2J\nerror: no file \\x1b\n"


def test_the_log_is_kept_for_its_owner_only(tmp_path):
    (tmp_path / "spark.log").write_text("records")
    (tmp_path / "spark.log").chmod(0o644)
    kept = keep_log(tmp_path)
    assert kept.read_text() == "records"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    kept.unlink()


def test_a_sign_of_life_passes_a_redirection(tmp_path, monkeypatch, capfd):
    from slicing.cli.session import redirected

    monkeypatch.setattr(voice, "BEAT_SECONDS", 0.01)
    found = ""
    with voice.reporting_alive("Spark has been starting"), redirected(tmp_path / "log"):
        while "starting" not in found:
            found += capfd.readouterr().err
    assert found.startswith("Spark has been starting for 0 s ...\n")
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize("text", ["10000-01-01T00:00:00.000Z", "+10000-01-01T00:00:00.000Z", "+294247-01-10T04:00:54Z"])
def test_a_watermark_beyond_datetime_is_its_last_instant(text):
    names = ("late", "late_for_some", "no_time", "no_window", "results", "open_windows", "slices")
    row = type("Row", (), {"asDict": lambda self: dict.fromkeys(names, 0)})()
    progress = {
        "id": "x", "name": None, "batchId": 1, "numInputRows": 1, "timestamp": "2024-05-01T12:30:00.000Z",
        "durationMs": {"addBatch": 1, "triggerExecution": 1}, "eventTime": {"watermark": text},
        "stateOperators": [], "observedMetrics": {"slicing: n": row},
    }  # fmt: skip
    found = micro_batch(progress)
    assert "watermark 9999-12-31T23:59:59" in found.line()
    input_counts = InputCounts()
    assert figures(found, progress, input_counts).startswith("micro-batch 1: 1 record (")
    progress["observedMetrics"]["input"] = Row(records=7, unreadable=2, example="x", without_time=0)
    assert figures(found, progress, input_counts).startswith("micro-batch 1: 7 records (")
    assert figures(found, progress, input_counts).endswith(", 2 unreadable")
    assert input_counts == InputCounts(14, 4, "x")


@pytest.mark.versions
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
    assert reason("An error occurred while calling o1.collectToPython.\n: a.b.Gone: why\n\tat a.b.C") == "a.b.Gone: why"
    chained = "slicing.errors.FunctionFailed: first\nDuring handling ...\nslicing.errors.TooLarge: last\nat java"
    assert reason(chained) == "last"
    python = "[X] y\nTraceback (most recent call last):\n  File 'a'\n    import b\nModuleNotFoundError: No b\n\nat java"
    assert reason(python) == "ModuleNotFoundError: No b"
    assert reason(None) == ""
    assert reason(RuntimeError()) == "RuntimeError"
