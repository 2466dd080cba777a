"""`python -m slicing state CHECKPOINT`: what the checkpoint of a query holds, as text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slicing.cli.console import visible

COMMAND = "state"


@dataclass(frozen=True)
class Asked:
    """The arguments: a checkpoint, a micro-batch and an operator of it, None for the last one and for the only one."""

    checkpoint: str
    batch: int | None
    operator: int | None


def parse(arguments: Sequence[str]) -> Asked:
    """Return what the arguments ask for."""
    made = argparse.ArgumentParser(
        prog=f"python -m slicing {COMMAND}",
        description="Describe what the checkpoint of a query holds. Nothing is written, and the query may be running.",
    )
    made.add_argument("checkpoint", metavar="CHECKPOINT", help="the `checkpointLocation` of the query")
    made.add_argument("--batch", type=int, metavar="N", help="a committed micro-batch (default: the last)")
    made.add_argument("--operator", type=int, metavar="N", help="a stateful operator, where a query has several")
    given = made.parse_args(arguments)
    path = given.checkpoint if "://" in given.checkpoint else str(Path(given.checkpoint).absolute())
    return Asked(path, given.batch, given.operator)


def run(asked: Asked, scratch: Path) -> int:
    """Start Spark, print the description, stop Spark. Raises InvalidValue."""
    from slicing.cli.session import session
    from slicing.spark.describe import describe

    spark = session(scratch)
    try:
        found = describe(spark, asked.checkpoint, asked.batch, operator=asked.operator)
        for line in str(found).splitlines():
            print(visible(line))
        return 0
    finally:
        spark.stop()
