"""What sliding windows ask of a call: refused with the remedy when the query is built."""

from __future__ import annotations

from pyspark.sql import DataFrame

from slicing.emission.emission import CHANGED, Emission, Every, Records
from slicing.errors import InvalidValue
from slicing.windows.sliding import Sliding


def check_sliding(frame: DataFrame, window: Sliding, tree: str, by_clock: bool, emission: Emission) -> None:
    """Refuse what has no meaning for windows that exist at the times of records. Raises InvalidValue."""
    if tree != "auto":
        raise InvalidValue(
            f"sliding windows are assembled from the times that are there, in one way; got `{tree}`. "
            "Leave `.assemble` out."
        )
    if emission.which == CHANGED:
        raise InvalidValue(
            f"{emission} compares a window with the one before it, and sliding windows of a key have none: "
            "records decide which there are. Use on_close() or on_update()."
        )
    if isinstance(emission.when, (Every, Records)):
        raise InvalidValue(
            f"{emission} goes by the windows that records are in, and a record also makes sliding windows that it is "
            "not in. Use on_update(), which puts out those too."
        )
