"""The look of shapes: colours by name for light and dark mode, and fonts that every machine has."""

from __future__ import annotations

SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'
WIDE = 0.62
"""The width of a character divided by the font size, for the widest of these fonts."""

COLOURS = {
    "paper": ("#ffffff", "#161b22"),
    "ink": ("#1f2a37", "#e2e8f0"),
    "soft": ("#5b6875", "#9aa7b5"),
    "grid": ("#dfe5eb", "#2d3640"),
    "odd": ("#d5e3f3", "#24405f"),
    "even": ("#eaf1f9", "#1c2f45"),
    "window": ("#3f7fca", "#5b9be6"),
    "open": ("#a9c6ea", "#34577f"),
    "taken": ("#1f2a37", "#e2e8f0"),
    "late": ("#c8324a", "#ff7b8b"),
    "partly": ("#c87a0a", "#f0ac45"),
    "mark": ("#b3560b", "#f2a25c"),
    "final": ("#1f6fbf", "#8fc1fb"),
    "update": ("#5f55b5", "#b9b1ff"),
    "early": ("#1b7f6b", "#6fd9c2"),
    "correction": ("#b3560b", "#f2a25c"),
    "gone": ("#76818d", "#8b98a6"),
}
"""Each colour for light and for dark mode."""

FILLS = {
    "odd": "fill:var(--odd)",
    "even": "fill:var(--even)",
    "window": "fill:var(--window)",
    "open": "fill:var(--open);stroke:var(--window);stroke-dasharray:3 2",
    "empty": "fill:none;stroke:var(--soft);stroke-dasharray:2 3",
}
"""Fills of bars: alternating slices, emitted windows, windows that were not emitted, windows without a record."""
DOTS = {
    "taken": "fill:var(--taken);stroke:var(--taken)",
    "late": "fill:var(--paper);stroke:var(--late)",
    "partly": "fill:var(--partly);stroke:var(--partly)",
    "lost": "fill:var(--paper);stroke:var(--soft)",
}
"""Looks of dots: records that count, are late for all windows, are late for some, or are in no window."""
CELLS = ("final", "update", "early", "correction", "gone")


def sheet() -> str:
    """Return the style sheet; it affects nothing outside of the pictures, which share it in a page."""

    def colours(which: int) -> str:
        return ";".join(f"--{name}:{both[which]}" for name, both in COLOURS.items())

    rules = [
        f".slicing-drawing{{{colours(0)};font-family:{SANS}}}",
        f"@media (prefers-color-scheme:dark){{.slicing-drawing{{{colours(1)}}}}}",
        ".slicing-drawing text{font-size:12px;fill:var(--ink)}",
        f".slicing-drawing .title{{font-family:{MONO}}}",
        ".slicing-drawing .soft{fill:var(--soft);font-size:11px}",
        ".slicing-drawing .paper{fill:var(--paper)}",
        ".slicing-drawing .grid{stroke:var(--grid);fill:none}",
        ".slicing-drawing .mark{stroke:var(--mark);stroke-dasharray:4 3;fill:none}",
        ".slicing-drawing .flag{fill:var(--mark)}",
        *(f".slicing-drawing .{look}{{{rule}}}" for look, rule in FILLS.items()),
        *(f".slicing-drawing .dot-{look}{{{rule};stroke-width:1.6}}" for look, rule in DOTS.items()),
        *(f".slicing-drawing .cell-{look}{{fill:var(--{look});font-weight:600}}" for look in CELLS),
    ]
    return "".join(rules)
