"""Versions of Spark: what needs which, and how they are told apart."""

from __future__ import annotations

import pyspark

from slicing.errors import MissingRequirement

Release = tuple[int, int]
OLDEST: Release = (4, 0)
"""The first with the stateful operator in Python, and with functions on Arrow batches as they are used here."""
COMMAND_LINE: Release = (4, 1)
"""The first with the functions on columns of Arrow by which the command line reads files."""


def release(text: str) -> Release:
    """The first two numbers of a version."""
    major, minor, *_ = text.split(".")
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def check_release(user: str, oldest: Release, found: str = "") -> None:
    """Raise MissingRequirement if a version of Spark, that of this program if left out, is older than the oldest."""
    found = found or pyspark.__version__
    if release(found) < oldest:
        raise MissingRequirement(
            f"{user} Spark {oldest[0]}.{oldest[1]} or newer; found {found}. "
            "Install a newer one: `pip install 'spark-slicing[spark]'`."
        )
