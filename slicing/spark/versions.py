"""The Spark versions that are required, and their comparison."""

from __future__ import annotations

import pyspark

from slicing.errors import MissingRequirement

Release = tuple[int, int]
OLDEST: Release = (4, 0)
"""The first version with the stateful operator in Python and with the functions on Arrow batches used here."""
COMMAND_LINE: Release = (4, 1)
"""The first version with the functions on Arrow columns by which the command line reads files."""


def release(text: str) -> Release:
    """Return the first two numbers of a version."""
    major, minor, *_ = text.split(".")
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def check_release(user: str, oldest: Release, found: str = "") -> None:
    """Raise MissingRequirement if a version of Spark, by default the installed one, is older than `oldest`."""
    found = found or pyspark.__version__
    if release(found) < oldest:
        raise MissingRequirement(
            f"{user} Spark {oldest[0]}.{oldest[1]} or newer; found {found}. "
            "Install a newer one: `pip install 'spark-slicing[spark]'`."
        )
