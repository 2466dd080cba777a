"""Turn names, keywords and values that do not exist here into messages with the call that was meant."""

from slicing.hints.calls import Misfit
from slicing.hints.names import no_column, no_keyword, no_name
from slicing.hints.of_others import OF_DEFINED, OF_GROUPED, OF_WINDOWED, of_length, refusal, remedy, sparks_window

__all__ = [
    "OF_DEFINED",
    "OF_GROUPED",
    "OF_WINDOWED",
    "Misfit",
    "no_column",
    "no_keyword",
    "no_name",
    "of_length",
    "refusal",
    "remedy",
    "sparks_window",
]
