"""Silences the Python process on the driver in which Spark asks a stateful operator for its state, once a start."""

from __future__ import annotations

import io
import sys

_MODULE = "pyspark.sql.streaming.transform_with_state_driver_worker"


def silence() -> None:
    """Drop what this process prints if it is that one; it prints for developers of Spark, past all settings of logs."""
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name == _MODULE:
        sys.stdout = io.StringIO()
