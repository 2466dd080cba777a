"""The command line: windowed aggregates of CSV, JSON and Parquet files, once or as files arrive.

    python -m slicing mentions.csv.gz --time ts --keys symbol --size "7 days" --advance "1 hour" \\
        --aggregate "mean(mentions)"

Arguments, the output path and the headers of files are checked before Spark starts; an error is one line on stderr.
Results are written to stdout or to `--output`, progress to stderr. `--help` lists the exit codes and needs no pyspark.

    python -m slicing state CHECKPOINT

describes the content of a query's checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from slicing.cli import state
from slicing.cli.command import INTERRUPTED, REFUSED, UNREADABLE, Job, NothingReadable
from slicing.cli.console import command_line_message, complain, say
from slicing.cli.headers import check_files
from slicing.cli.parsing import parse
from slicing.errors import MissingRequirement, SlicingError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given[:1] == [state.COMMAND]:
            asked = state.parse(given[1:])
            return on_spark(lambda: partial(state.run, asked))
        job = parse(given)
        check_files(job)
        return run(job)
    except NothingReadable as error:
        return complain(command_line_message(error), UNREADABLE)
    except SlicingError as error:
        return complain(command_line_message(error), REFUSED)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def run(job: Job) -> int:
    """Run the job and return the exit code. Raises MissingRequirement without pyspark."""

    def load() -> Callable[[Path], int]:
        from slicing.cli.job import run

        return partial(run, job)

    return on_spark(load)


def on_spark(load: Callable[[], Callable[[Path], int]]) -> int:
    """Call the function that `load` imports, in a temporary directory. Raises MissingRequirement without pyspark."""
    try:
        from slicing.spark.versions import COMMAND_LINE, check_release

        check_release("the command line needs", COMMAND_LINE)
        from slicing.cli.session import workspace

        do = load()
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            f"reading files needs pyspark; found no module `{error.name}`. Install it with "
            "`pip install 'spark-slicing[spark]'`."
        ) from None
    with workspace() as scratch:
        return do(scratch)
