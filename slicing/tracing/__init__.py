"""Trace plain Python functions: call them once with tracers, so that they can run on columns, exactly or not at all."""

from slicing.tracing.kernel import numbers
from slicing.tracing.showing import by_rows, mode, traced
from slicing.tracing.verification import verify, verify_law

__all__ = ["by_rows", "mode", "numbers", "traced", "verify", "verify_law"]
