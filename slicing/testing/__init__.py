"""Runs a definition on micro-batches of a few records and returns its rows, without a JVM; for tests of pipelines."""

from slicing.testing.runs import MicroBatch as MicroBatch
from slicing.testing.runs import run as run
