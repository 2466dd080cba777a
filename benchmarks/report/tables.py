"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> str:
    """Return a Markdown table."""
    return "\n".join(map(line, [head, ["---"] * len(head), *rows]))


def line(cells: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
