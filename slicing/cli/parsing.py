"""The arguments of the command line, checked one by one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slicing.aggregates.aggregate import EVENT_TIME
from slicing.cli.command import Job, Parser, check_writable, data_files
from slicing.errors import InvalidValue
from slicing.grouping import group_by
from slicing.windows.session import session
from slicing.windows.sets import windows_of_call
from slicing.windows.sliding import sliding
from slicing.windows.time.durations import microseconds
from slicing.windows.window import Window, cumulating, hopping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
from slicing.cli.results import aggregators, results_of

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
_EPILOG = """example:
  python -m slicing payments.csv --time ts --keys user --size "1 hour" --advance "1 minute" \\
      --aggregate "count()" --aggregate "spent=sum(amount)"

exit codes:
  0    done; with --follow: ended by Ctrl-C
  1    Spark failed; its log is kept, and named
  2    an argument, a column or the output is wrong; nothing was written
  3    done, but records could not be read and are in no window; 0 with --allow-bad
  130  interrupted by Ctrl-C
"""


# Arguments


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    names = ", ".join(aggregators())
    made = Parser(
        prog="python -m slicing",
        description="Aggregate records over hopping (overlapping) windows. Without --output the results are printed. "
        "Times are UTC.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("input", metavar="INPUT", help="a CSV (with header), JSON lines or Parquet file, gzip included, or a directory")
    add("--time", required=True, metavar="COLUMN", help="the event time: a timestamp, or text that can be cast to one")
    add("--time-unit", choices=("s", "ms", "us"), default="", help="the event time is a number of these since 1970")
    add("--keys", action="append", default=[], metavar="COLUMN[,COLUMN]", help="group by these; may be repeated")
    size = 'length of a window, for example "7 days"; repeated: windows of several sizes, in rows of their own'
    add("--size", action="append", default=[], metavar="DURATION", help=size)
    add("--session", metavar="GAP", help='sessions instead, which end after a pause: for example "30 minutes"')
    sliding = 'sliding windows instead, one for each distinct set of records so near: for example "10 minutes"'
    add("--sliding", metavar="DIFFERENCE", help=sliding)
    advance = "distance between the starts of windows (default: the size); once for all sizes, or once for each"
    add("--advance", action="append", default=[], metavar="DURATION", help=advance)
    tail = 'coarse start of long windows, at multiples of this: once for all sizes, or once for each ("none" for none)'
    add("--tail", action="append", default=[], metavar="DURATION", help=tail)
    add("--cumulate", metavar="STEP", help="windows that begin every size and end at each step: the day so far")
    add("--zone", metavar="ZONE", help='days, weeks, months and years by the clock of a zone, as "Europe/Berlin"')
    add("--gaps", action="store_true", help="let the advance be longer than the size: records between are in no window")
    add("--offset", metavar="DURATION", help="shift of all windows from the epoch")
    add(
        "--aggregate",
        action="append",
        required=True,
        metavar="[NAME=]FUNCTION(COLUMN)",
        help=f"one of {names}; may be repeated",
    )
    add("--output", metavar="PATH", help="write to this directory; .csv, .json or .parquet gives the format")
    add("--limit", type=int, default=20, metavar="N", help="print at most N rows, with --follow per micro-batch (20)")
    add("--follow", action="store_true", help="treat the directory INPUT as a stream, until Ctrl-C")
    add(
        "--delay",
        metavar="DURATION",
        help="with --follow: the delay of the watermark (10 minutes)",
    )
    add(
        "--ahead",
        metavar="DURATION",
        help="with --follow: a time further ahead of now than this counts as none, and moves no watermark (1 day)",
    )
    add("--grace", default="0 seconds", metavar="DURATION", help="with --follow: keep windows open so much longer")
    add(
        "--checkpoint", metavar="DIR", help="with --follow: where to remember what is done (default: beside the output)"
    )
    add("--max-files", type=int, metavar="N", help="with --follow: read at most N files per micro-batch")
    add("--allow-bad", action="store_true", help="exit code 0 although records could not be read")
    return made


def parse(arguments: Sequence[str] | None) -> Job:
    """Return the job that the arguments describe. Raises InvalidValue and InvalidType, with the remedy."""
    given = parser().parse_args(arguments)
    source = Path(given.input)
    output = Path(given.output) if given.output else None
    keys = tuple(key.strip() for keys in given.keys for key in keys.split(",") if key.strip())
    windows = _windows(given)
    results = results_of(given.aggregate)
    values = [column for bound in results.values() for column in bound.inputs if column != EVENT_TIME]

    def aggregate(frame: DataFrame) -> DataFrame:
        return group_by(frame, *keys).window(*windows, time=given.time).grace(given.grace).aggregate(**results)

    job = Job(
        source,
        format_of_input(source),
        given.time,
        given.time_unit,
        keys,
        tuple(values),
        tuple(results),
        aggregate,
        microseconds(given.grace, "--grace"),
        microseconds(given.delay or "10 minutes", "--delay"),
        microseconds(given.ahead or "1 day", "--ahead"),
        given.follow,
        output,
        format_of_output(output) if output else "",
        Path(given.checkpoint) if given.checkpoint else None,
        given.max_files,
        given.limit,
        given.allow_bad,
    )
    _check(job)
    if given.delay and not job.follow:
        raise InvalidValue("`--delay` is for streams: without --follow no record is late. Leave it out.")
    if given.ahead and not job.follow:
        raise InvalidValue("`--ahead` is for streams: without --follow there is no watermark to move. Leave it out.")
    _check_written(job)
    return job


def _windows(given: argparse.Namespace) -> list[Window]:
    """The windows that the arguments describe."""
    if (made := _by_records(given)) is not None:
        return [made]
    if not given.size:
        raise InvalidValue('`--size` is needed, for example --size "1 hour"; or --session "30 minutes".')
    offset, sizes = given.offset or 0, given.size
    if given.cumulate is not None:
        return [_cumulating(given, offset)]
    advances = _of_each("advance", given.advance, sizes) or sizes
    tails = _of_each("tail", given.tail, sizes) or ["none"] * len(sizes)
    options = {"gaps": given.gaps, "zone": given.zone}
    windows = [
        hopping(size, advance, offset=offset, tail=None if tail == "none" else tail, **options)
        for size, advance, tail in zip(sizes, advances, tails, strict=True)
    ]
    windows_of_call(windows, {}, long=False)  # refuses windows that could not be distinguished
    return windows


def _of_each(option: str, values: list[str], sizes: list[str]) -> list[str]:
    """The value of an option for each size; empty if not given. Raises InvalidValue for any other number of values."""
    if values and len(values) not in (1, len(sizes)):
        raise InvalidValue(
            f"`--{option}` is given once for all sizes or once for each; got {len(values)} for {len(sizes)} "
            f"{'size' if len(sizes) == 1 else 'sizes'}. The first goes with the first --size, and so on."
        )
    return values * len(sizes) if len(values) == 1 else values


def _cumulating(given: argparse.Namespace, offset: str | int) -> Window:
    if given.advance or given.gaps or given.tail:
        raise InvalidValue(
            "`--cumulate` goes without --advance, --gaps and --tail: its step is the advance. Leave them out."
        )
    if len(given.size) > 1:
        raise InvalidValue(f"`--cumulate` goes with one --size; got {len(given.size)}. Run it once for each.")
    return cumulating(given.size[0], given.cumulate, offset=offset, zone=given.zone)


def _by_records(given: argparse.Namespace) -> Window | None:
    """Session or sliding windows, which take a single duration; None if neither is asked for. Raises InvalidValue."""
    kinds: dict[str, Callable[[str], Window]] = {"session": session, "sliding": sliding}
    asked = [name for name in kinds if getattr(given, name) is not None]
    if not asked:
        return None
    others = (*asked[1:], "size", "advance", "tail", "cumulate", "zone", "offset", "gaps")
    if more := [f"--{name}" for name in others if getattr(given, name)]:
        raise InvalidValue(f"`--{asked[0]}` goes without {', '.join(more)}: records decide where it begins and ends.")
    return kinds[asked[0]](getattr(given, asked[0]))


def _check_written(job: Job) -> None:
    """Check that the outputs are writable. It is the last check, so that a failed earlier check leaves no trace."""
    if job.output:
        check_writable(job.output, "--output")
    if job.checkpoint and job.follow:
        check_writable(job.checkpoint, "--checkpoint")


def _check(job: Job) -> None:
    for name, duration in (("--grace", job.grace), ("--delay", job.delay)):
        if duration < 0:
            raise InvalidValue(f"`{name}` must not be negative. Leave it out for the default.")
    if job.ahead <= 0:
        raise InvalidValue("`--ahead` must be positive. Leave it out for the default, 1 day.")
    for name, count in (("--limit", job.limit), ("--max-files", job.max_files)):
        if count is not None and count < 1:
            raise InvalidValue(f"`{name}` must be positive; got {count}.")
    if not job.follow:
        _check_bounded(job)
    elif not job.source.is_dir():
        raise InvalidValue(
            f"`--follow` watches a directory for new files; `{job.source}` is a file. Leave out --follow."
        )
    elif job.output and job.output.resolve().is_relative_to(job.source.resolve()):
        raise InvalidValue(f"`--output` must not lie in the directory that is followed; got `{job.output}`.")


def _check_bounded(job: Job) -> None:
    if job.output and os.path.lexists(job.output):
        raise InvalidValue(f"`--output` must not exist yet; found `{job.output}`. Remove it or choose another name.")
    if job.given_checkpoint or job.max_files is not None:
        raise InvalidValue("`--checkpoint` and `--max-files` are for streams. Add --follow.")


def format_of_input(path: Path) -> str:
    """Return "csv", "json" or "parquet", by the extension of a file or of the files in a directory."""
    if not path.exists():
        raise InvalidValue(f"`{path}` does not exist. INPUT is a file or a directory.")
    files = data_files(path) if path.is_dir() else [path]
    found = {known for file in files if (known := _format(file))}
    if len(found) > 1:
        raise InvalidValue(f"`{path}` must hold files of one format; found {', '.join(sorted(found))}.")
    if not found:
        held = "holds no file" if path.is_dir() else "is not a file"
        raise InvalidValue(f"`{path}` {held} of a known format. Known are {', '.join(FORMATS)}, also compressed (.gz).")
    return found.pop()


def _format(path: Path) -> str | None:
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return FORMATS.get(plain.suffix.lower())


def format_of_output(path: Path) -> str:
    """Return the output format, by the extension."""
    if path.suffix.lower() not in (".csv", ".json", ".parquet"):
        raise InvalidValue(f"`--output` must end in .csv, .json or .parquet, which gives the format; got `{path}`.")
    return FORMATS[path.suffix.lower()]
