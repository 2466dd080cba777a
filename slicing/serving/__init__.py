"""Serving: the value of a key now, from slices that a stream keeps in a store. Import this package, not its modules.

::

    definition.serve(events)  ->  serve_to(store)  ->  store  ->  Reader(store, definition).read(key)
    Spark: touched slices         foreachBatch         rows       numpy: decode, combine, lower
"""

from slicing.serving.levels import Levels, Range, Windows, needed, tails_of
from slicing.serving.manifest import NO_BATCH, AsOf, Manifest, Progress, StoredResult, key_text, spec_text
from slicing.serving.packing import Packing
from slicing.serving.reader import Answer, Reader, Served, Stale, difference, feature_set_of, manifest_of
from slicing.serving.store import Found, Row, Store
from slicing.serving.stores import store_of

__all__ = [
    "NO_BATCH",
    "Answer",
    "AsOf",
    "Found",
    "Levels",
    "Manifest",
    "Packing",
    "Progress",
    "Range",
    "Reader",
    "Row",
    "Served",
    "Stale",
    "Store",
    "StoredResult",
    "Windows",
    "difference",
    "feature_set_of",
    "key_text",
    "manifest_of",
    "needed",
    "spec_text",
    "store_of",
    "tails_of",
]
