"""The record count for internal use; users count with `combinators.count`."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicing.aggregates.aggregate import Aggregate, fieldwise


def _none() -> int:
    return 0


def _one_more(n: Any, *_: Any) -> Any:
    return n + 1


RECORD_COUNT = Aggregate(_none, _one_more, fieldwise(np.add), fieldwise(np.subtract), partial="n bigint", columns=True)
"""Counts records of columns of any kinds: bigint, 0 without records, invertible."""
