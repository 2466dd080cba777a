"""Flink SQL's HOP on the same files, with checkpoints: a script run by hand, never in CI.

    python3 -m venv flink-venv                   # apache-flink has dependencies of its own
    flink-venv/bin/pip install apache-flink
    python -m benchmarks.flink --workload day    # in the project's environment: prints the folder of the files
    flink-venv/bin/python benchmarks/flink.py --files FOLDER --size "1 hour" --advance "1 minute"

The last line needs nothing of this project. Flink's package has no Parquet, so the files are first rewritten as CSV,
in time order, outside of what is timed. Parallelism 2, state in RocksDB where the package has it, else on the heap,
a checkpoint every 10 seconds; the job counts its windows into a blackhole sink. Prints seconds, records, and rows.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

TABLE = """
create table records (
    `key` bigint, ts timestamp(3), v bigint, watermark for ts as ts - interval '5' second
) with (
    'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'
)
"""
SINK = """
create table windows (
    `key` bigint, window_start timestamp(3), window_end timestamp(3), records bigint, total bigint
) with ('connector' = '{connector}'{options})
"""
QUERY = """
insert into windows
select `key`, window_start, window_end, count(*), sum(v)
from hop(table records, descriptor(ts), interval {advance}, interval {size})
group by `key`, window_start, window_end
"""


def main() -> None:
    """Print a folder of files, or run Flink over one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workload", help="print the folder of this workload: day or dense")
    parser.add_argument("--files", type=Path, help="the folder of a workload")
    parser.add_argument("--size", default="1 hour")
    parser.add_argument("--advance", default="1 minute")
    parser.add_argument("--out", type=Path, help="write the windows as CSV into this folder instead of counting them")
    options = parser.parse_args()
    if options.workload:
        from benchmarks import workloads

        print(getattr(workloads, options.workload.upper()).path())
        return
    with tempfile.TemporaryDirectory() as scratch:
        rows = _as_csv(sorted(options.files.glob("*.parquet")), Path(scratch) / "csv")
        seconds = _run(Path(scratch), options.size, options.advance, options.out)
    print(f"{rows:,} records, {seconds:.2f} s, {rows / seconds:,.0f} records/s")


def _as_csv(files: list[Path], folder: Path) -> int:
    """The records as CSV, one file per micro-batch so that both readers get times that are near each other."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    folder.mkdir()
    rows = 0
    for path in files:
        table = pq.read_table(path, columns=["key", "ts", "v"]).sort_by("ts")
        # Flink wants a space between date and time, and no zone.
        table = table.set_column(1, "ts", table["ts"].cast(pa.timestamp("ms"), safe=False).cast(pa.string()))
        pyarrow.csv.write_csv(
            table, folder / f"{path.stem}.csv", pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        )
        rows += len(table)
    return rows


def _run(scratch: Path, size: str, advance: str, out: Path | None) -> float:
    """Seconds of the job, without the start of the JVM."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": (scratch / "checkpoints").as_uri(),
        "state.backend.type": "rocksdb",
        "state.backend.incremental": "true",
        "table.local-time-zone": "UTC",
    }.items():
        environment.get_config().set(name, value)
    environment.execute_sql(TABLE.format(path=scratch / "csv"))
    if out:
        shutil.rmtree(out, ignore_errors=True)
        sink = SINK.format(connector="filesystem", options=f", 'path' = '{out.absolute()}', 'format' = 'csv'")
    else:
        sink = SINK.format(connector="blackhole", options="")
    environment.execute_sql(sink)
    start = time.monotonic()
    environment.execute_sql(QUERY.format(size=_interval(size), advance=_interval(advance))).wait()
    return time.monotonic() - start


def _interval(text: str) -> str:
    """`10 seconds` as Flink SQL writes it, `'10' second`."""
    number, unit = text.split()
    return f"'{number}' {unit.rstrip('s')}"


if __name__ == "__main__":
    main()
