"""Files as the command line reads them: columns by name, types over all files, what cannot be read beside the rest."""

import csv
import gzip
import io
import json
import random
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slicing.cli.command import NothingReadable
from slicing.cli.headers import Reordered, check_files, check_names, fields, header, header_of
from slicing.cli.loading import BAD
from slicing.cli.parsing import parse
from slicing.cli.reading import bounded, check_nanos, stream, with_time
from slicing.errors import InvalidType, InvalidValue


def job(source, *more, keys="symbol", aggregate="sum(price)", time="ts"):
    given = [source, "--time", time, "--keys", keys, "--size", "1 hour", "--aggregate", aggregate, *more]
    return parse(list(map(str, given)))


def rows(frame):
    """Records that could be read, in some order, and the texts of the others."""
    if frame.isStreaming:
        query = frame.writeStream.format("memory").queryName("records").trigger(availableNow=True).start()
        query.awaitTermination()
        frame = frame.sparkSession.table("records")
    found = [tuple(row) for row in frame.collect()]
    at = frame.columns.index(BAD)
    good = sorted((row[:at] + row[at + 1 :] for row in found if row[at] is None), key=repr)
    return good, sorted(row[at] for row in found if row[at] is not None)


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_csv_files_of_other_columns_and_orders_are_read_by_name(spark, tmp_path):
    """Against pandas, which reads each file by its own header; the same on a stream."""
    source = tmp_path / "in[1]"
    source.mkdir()
    frames = [
        pd.DataFrame({"ts": ["2024-05-01T12:00:00", "2024-05-01T12:00:01"], "symbol": ["a", "b"], "price": [1, 2]}),
        pd.DataFrame(
            {"price": [3, 2**40], "more": ["x, y", 'q "z"'], "symbol": ['c "d, e"', None], "ts": ["2024-05-01"] * 2}
        ),
        pd.DataFrame({"symbol": ["d, e"], "price": [None], "ts": ["2024-05-01T12:00:03"]}),
    ]
    for number, frame in enumerate(frames):
        frame.to_csv(source / f"{number}.csv{'.gz' if number == 1 else ''}", index=False)
    (source / "3.csv").write_text("\ufeffsymbol,ts,price\n\nf,2024-05-01T12:00:04,5\nshort,2024-05-01\nlong,a,b,c\n\n")
    (source / "4.csv").touch()
    whole = pd.concat([*frames, pd.DataFrame({"symbol": ["f"], "ts": ["2024-05-01T12:00:04"], "price": [5]})])
    expected = sorted(
        [
            (datetime.fromisoformat(each.ts), *(None if pd.isna(v) else v for v in (each.symbol, each.price)))
            for each in whole.itertuples()
        ],
        key=repr,
    )
    wanted = job(source)
    read = bounded(wanted, spark)
    assert dict(read.dtypes) == {"ts": "timestamp", "symbol": "string", "price": "bigint", BAD: "string"}
    assert rows(read) == (expected, ["long,a,b,c", "short,2024-05-01"])
    good, bad = rows(read)
    followed = source.rename(tmp_path / "in")
    assert rows(stream(job(followed, "--follow"), spark)) == (good, bad)


@pytest.mark.parametrize("seed", range(20))
def test_fields_are_those_of_pythons_reader(seed):
    choice = random.Random(seed)
    values = ["".join(choice.choices('ab ,"', k=choice.randrange(5))) for _ in range(choice.randrange(2, 6))]
    text = io.StringIO()
    csv.writer(text, quoting=choice.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]), lineterminator="").writerow(values)
    assert len(fields(text.getvalue())) == len(values), text.getvalue()
    assert header_of(text.getvalue()).names == tuple(value or f"_c{i}" for i, value in enumerate(values))


def test_lines_are_arranged_file_by_file(tmp_path):
    plain, other, empty = tmp_path / "a b.csv", tmp_path / "b.csv.gz", tmp_path / "c.csv"
    plain.write_text("x,y,z\n1,2,3\n")
    with gzip.open(other, "wt") as file:
        file.write('z,"x"\n7,8\n')
    empty.touch()
    arrange = Reordered(("x", "y", "z"), ("x", "z"))
    lines = [(plain, "x,y,z"), (plain, "1,2,3"), (plain, " "), (other, 'z,"x"'), (other, '"7,0",8'), (other, "9"),
             (empty, "?"), (plain, "broken")]  # fmt: skip
    paths = pa.array([path.as_uri() for path, _ in lines])
    found = arrange(pa.array([line for _, line in lines]), paths).to_pylist()
    assert found == [None, "1,2,3", None, None, '8,,"7,0"', "9,,,", None, "broken"]
    with pytest.raises(InvalidValue, match=r"b\.csv\.gz` has no column `y`; its columns are z, x"):
        Reordered(("x", "y", "z"), ("y",))(pa.array(["1,2"]), pa.array([other.as_uri()]))
    assert header(str(empty)) is None


def test_patterns_are_not_followed(tmp_path):
    """Spark would read such files several times."""
    (tmp_path / "a[1].json").write_text("{}")
    with pytest.raises(InvalidValue, match=r"`--follow` takes no path with one of .*; got `.*a\[1\]\.json`"):
        check_files(job(tmp_path, "--follow"))
    with pytest.raises(InvalidValue, match=r"a\[1\]\.csv"):
        Reordered(("x",), ("x",))(pa.array(["1"]), pa.array([(tmp_path / "a[1].csv").as_uri()]))


def test_a_file_without_a_column_is_named_and_so_is_one_that_has_it_twice(spark, tmp_path):
    (tmp_path / "a.csv").write_text("ts,symbol,price\n")
    (tmp_path / "b.csv").write_text("ts,Symbol,price\n")
    with pytest.raises(InvalidValue, match=r"b\.csv` has no column `symbol`; its columns are ts, Symbol, price"):
        bounded(job(tmp_path), spark)
    check_names("a.csv", ("x", "y", "y"), ("x",))
    with pytest.raises(InvalidValue, match="2 columns called `y`"):
        check_names("a.csv", ("x", "y", "y"), ("x", "y"))


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("README.md", b"about these files", "cannot be read as Parquet"),
        ("b.parquet", b"", "cannot be read as Parquet"),
        ("a.csv.gz", b"ts,symbol,price\n2024-05-01,a,1\n", "cannot be read as CSV; got BadGzipFile"),
        ("a.csv.gz", gzip.compress(b"ts,symbol,price\n2024-05-01,a,1\n" * 9)[:20], "cannot be read as CSV; got EOF"),
    ],
    ids=("text", "empty", "not compressed", "cut off"),
)
def test_files_that_cannot_be_read_are_named(spark, tmp_path, name, content, why):
    if "Parquet" in why:
        pq.write_table(pa.table({"ts": [0], "symbol": ["a"], "price": [1]}), tmp_path / "a.parquet")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidValue, match=rf"{name}` {why}.*Remove it, or write it anew"):
        bounded(job(tmp_path), spark)


def test_whole_numbers_of_files_of_other_columns_keep_their_digits(spark, tmp_path):
    """Keys of more than 18 digits would be rounded as doubles, and records of two keys be counted as one."""
    (tmp_path / "a.csv").write_text("ts,symbol,price\n2024-05-01,9007199254740992,1\n2024-05-01,9007199254740993,2\n")
    (tmp_path / "b.csv").write_text("symbol,ts,price\n18446744073709551615,2024-05-01,3\n")
    read = bounded(job(tmp_path), spark)
    assert dict(read.dtypes)["symbol"] == "decimal(20,0)"
    assert {str(row.symbol) for row in read.collect()} == {"9007199254740992", "9007199254740993", f"{2**64 - 1}"}


def test_broken_lines_and_empty_columns_do_not_make_text_of_numbers(spark, tmp_path):
    (tmp_path / "a.csv").write_text("ts,symbol,price\n2024-05-01,a,1\nnot,a,record,at all\n2024-05-01,7,\n")
    (tmp_path / "b.csv").write_text("price,ts,symbol\n,2024-05-01,b\n")
    (tmp_path / "c.csv").write_text("symbol,ts,price\nc,2024-05-01,2.5\n")
    good, bad = rows(read := bounded(job(tmp_path), spark))
    assert dict(read.dtypes)["price"] == "double"
    assert [row[1:] for row in good] == [("7", None), ("a", 1.0), ("b", None), ("c", 2.5)]
    assert bad == ["not,a,record,at all"]


def test_directories_that_say_a_value_are_columns(spark, tmp_path):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "x.csv").write_text(
            ["ts,price\n2024-05-01,1\n", "price,ts\n2,2024-05-01\n"][day - 1]
        )
    read = bounded(job(tmp_path, keys="day"), spark)
    assert [row[1:] for row in rows(read)[0]] == [(1, 1), (2, 2)]


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_lines_of_json_that_are_no_objects_are_counted(spark, tmp_path):
    records = [{"ts": f"2024-05-01T12:00:0{n}", "symbol": "a", "price": n} for n in range(3)]
    (tmp_path / "a.json").write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
    good, bad = rows(bounded(job(tmp_path), spark))
    assert [row[2] for row in good] == [0, 1, 2]
    assert bad == ["[", "]"]
    following = job(tmp_path, "--follow")
    frame = stream(following, spark)
    (tmp_path / "b.json").write_text('{"ts": "2024-05-01", "symbol": "b", "price": "x"}\n{"symbol": "b", "price": 4}\n')
    good, bad = rows(frame)
    assert sorted(row[2] for row in good) == [0, 1, 2, 4]
    assert bad == ["[", "]", '{"ts": "2024-05-01", "symbol": "b", "price": "x"}']


def test_json_of_which_nothing_is_readable_says_how_it_must_be(spark, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"ts": "2024-05-01", "symbol": "a", "price": 1}], indent=2))
    with pytest.raises(NothingReadable, match=r"one object in each line.*jq -c"):
        bounded(job(tmp_path), spark)


# --- time ------------------------------------------------------------------------------------------------------------


def test_times_that_cannot_be_read_are_told_from_those_that_are_not_there(spark, tmp_path):
    lines = ["2024-05-01T12:00:00Z,a,1", "05/01/2024 12:00,a,2", ",a,3", '"",a,4', '" ",a,5', "1e9,a,6"]
    (tmp_path / "a.csv").write_text("\n".join(["ts,symbol,price", *lines]))
    good, bad = rows(bounded(job(tmp_path), spark))
    assert sorted(row[2] for row in good) == [1, 3, 4, 5]
    assert [row[0] for row in good if row[0]] == [datetime(2024, 5, 1, 12)]
    assert bad == ["ts = 05/01/2024 12:00", "ts = 1e9"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_numbers_are_times_of_a_unit(spark, unit):
    numbers = [0, 1, -1, 1_714_564_800, -(10**9)]
    frame = spark.createDataFrame([(n, float(n), str(n)) for n in numbers], "i long, d double, t string")
    for column in frame.columns:
        micros = with_time(frame, column, unit).selectExpr(f"unix_micros({column})").toPandas().iloc[:, 0]
        assert micros.tolist() == [pd.Timestamp(n, unit=unit).value // 1000 for n in numbers]
    far = spark.createDataFrame([(2**63 - 1, float("nan"), "soon")], "i long, d double, t string")
    if unit != "us":
        assert [with_time(far, name, unit).select(name).head()[0] for name in far.columns] == [None] * 3


def test_a_unit_goes_with_numbers_only(spark):
    frame = spark.createDataFrame([("2024-05-01T12:00:00Z", 0, True)], "text string, epoch long, flag boolean")
    for column in ("epoch", "flag"):
        with pytest.raises(InvalidType, match=r"got (bigint|boolean), .* --time-unit s, ms or us"):
            with_time(frame, column)
    with pytest.raises(InvalidValue, match="`when` does not exist; the columns are text, epoch, flag"):
        with_time(frame, "when")
    with pytest.raises(InvalidValue, match="`--time-unit` is for numbers; time column `text` is a timestamp"):
        with_time(with_time(frame, "text"), "text", "s")


# --- Parquet ---------------------------------------------------------------------------------------------------------


def test_nanoseconds_of_pandas_are_timestamps(spark, tmp_path):
    """Also before 1970, with and without a time zone, and beside a file in microseconds; against pandas' own floor."""
    times = pd.to_datetime(np.array([-1, 0, 999, 1001, 1_714_564_800_000_000_123]))
    frame = pd.DataFrame({"ts": times.tz_localize("UTC"), "seen": times, "symbol": list("abcde"), "price": range(5)})
    frame.assign(unused=times).to_parquet(tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pandas(frame[::-1]), tmp_path / "b.parquet", coerce_timestamps="us",
                   allow_truncated_timestamps=True)  # fmt: skip
    assert {str(pq.read_schema(path).field("seen").type) for path in tmp_path.iterdir()} == {
        "timestamp[ns]",
        "timestamp[us]",
    }
    read = bounded(job(tmp_path, keys="seen"), spark)
    assert dict(read.dtypes) == {"ts": "timestamp", "seen": "timestamp_ntz", "price": "bigint", BAD: "string"}
    found = read.selectExpr("unix_micros(ts)", "unix_micros(cast(seen as timestamp))", "price").collect()
    floors = [value.floor("us").value // 1000 for value in times]
    truncated = [value if n % 1000 == 0 else None for n, value in zip(times.asi8, floors, strict=True)]
    ours = sorted(map(tuple, found[:5]))
    assert ours == sorted((value, value, n) for n, value in enumerate(floors))
    assert len(found) == 10
    assert truncated[1] == 0

    (tmp_path / "b.parquet").unlink()
    good, bad = rows(stream(job(tmp_path, "--follow", keys="symbol"), spark))
    assert [row[0] for row in good] == [value.floor("us").to_pydatetime() for value in times]
    assert not bad


def test_a_followed_directory_keeps_its_unit_and_its_columns(tmp_path):
    times = pd.DataFrame({"ts": pd.to_datetime([1], unit="s")})
    for unit in ("ns", "us"):
        times.astype({"ts": f"datetime64[{unit}]"}).to_parquet(tmp_path / f"{unit}.parquet")
    check_nanos(str(tmp_path / "ns.parquet"), (("ts", True),))
    with pytest.raises(InvalidValue, match=r"us\.parquet` has `ts` as timestamp\[us\], the first file in another unit"):
        check_nanos(str(tmp_path / "us.parquet"), (("ts", True),))
    with pytest.raises(InvalidValue, match=r"us\.parquet` has no column `price`; its columns are ts"):
        check_nanos(str(tmp_path / "us.parquet"), (("ts", False), ("price", False)))
