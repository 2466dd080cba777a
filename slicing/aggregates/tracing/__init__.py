"""Trace plain Python functions: call them once with tracers, so that they can run on columns, exactly or not at all."""

from slicing.aggregates import kernels
from slicing.aggregates.tracing.kernel import numbers
from slicing.aggregates.tracing.showing import traced

__all__ = ["traced"]

kernels.MAKERS.append(numbers)
