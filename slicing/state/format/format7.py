"""Convert headers of format 7, which version 0.1 writes, to format 8.

Results and families of format 7 have no ids: they are numbered in order, results from 1 and families from 0, as in the
names of its lists. All of its pages are of generation 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slicing.state.format.names import check_names

FORMAT = 7
_NAMES = (
    *("identity", "layout", "families", "watermark", "clock", "tick", "newest", "serial", "revision", "nonce"),
    *("fresh", "stripes", "late", "lists", "zones"),
)
_FIELDS = frozenset(_NAMES)
_OPTIONAL = ("zones",)
_FAMILY = frozenset(("done", "taking", "kept", "nodes", "trees"))


def renewed(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the equivalent header of format 8. Raises StateMismatch for unknown fields."""
    check_names("header", FORMAT, content, _FIELDS, _OPTIONAL)
    for family in content["families"]:
        check_names("family in the header", FORMAT, family, _FAMILY)
    identity, layout = content.pop("identity"), content.pop("layout")
    results, specs = identity.get("results", []), layout.pop("families", [])
    contents = contents_of(layout.pop("content", ""), len(results))
    families = enumerate(content["families"])
    return {
        **content,
        "keys": identity.get("keys", []),
        "buckets": identity.get("buckets", ""),
        "results": [
            {"id": number, **result, "content": held}
            for number, (result, held) in enumerate(zip(results, contents, strict=True), 1)
        ],
        "layout": layout,
        "families": [{**each, "id": at, "spec": specs[at] if specs else []} for at, each in families],
        "generations": {"0": list(range(1, len(results) + 1))},
        "fresh": _of_generation(content["fresh"]),
        "late": _of_generation(content["late"]),
        "lists": {name: _of_generation(entries) for name, entries in content["lists"].items()},
        "stripes": {
            key: [_of_generation(runs), _of_generation(loose)] for key, (runs, loose) in content["stripes"].items()
        },
    }


def contents_of(text: str, count: int) -> list[str]:
    """Return the content of each result from a text that has one content for all results, or one for each.

    >>> contents_of("partials", 2), contents_of("partials, windows", 2)
    (['partials', 'partials'], ['partials', 'windows'])
    """
    found = text.split(", ")
    return found * count if len(found) == 1 else found


def _of_generation(entries: Iterable[list[int]]) -> list[list[int]]:
    return [[*entry, 0] for entry in entries]
