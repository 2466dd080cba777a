"""Hooks of the site: reference pages from docstrings, and a menu of versions if it is built from a tag."""

import inspect
import os

from mkdocs.structure.files import File

import combinators
import slicing

QUERIES = ("group_by", "Grouped", "Windowed", "Definition", "FeaturesAt")
WINDOWS = (
    "hopping",
    "tumbling",
    "cumulating",
    "by_edges",
    "session",
    "sliding",
    "counting",
    "unbounded",
    "processing_time",
    "assigned_by",
    "Window",
    "Hopping",
)
TRIGGERS = ("on_close", "on_update", "on_change", "early", "Emission", "Trigger", "OpenWindows")
PROCESS = ("keep_last", "keep_newest", "within_delta")
AGGREGATES = ("Aggregate", "Bound", "fieldwise", "Fieldwise", "traced", "EVENT_TIME")


def names():
    """The public names by page of the reference; names without a page are on the page "running"."""
    errors = [
        name for name, value in vars(slicing.errors).items() if name in slicing.__all__ and isinstance(value, type)
    ]
    known = {
        "queries": QUERIES,
        "windows": WINDOWS,
        "triggers": TRIGGERS + PROCESS,
        "aggregates": AGGREGATES,
        "errors": errors,
    }
    placed = {name for names in known.values() for name in names}
    return {**known, "running": [name for name in slicing.__all__ if name not in placed]}


def pages():
    """The pages of the reference as Markdown, by name of the page."""
    found = {}
    for name, members in names().items():
        there = [f"::: {_home(slicing, member)}" for member in members]
        found[name] = "\n\n".join([f"# Reference: {name}", *there])
    both = [f"::: {_home(combinators, member)}" for member in combinators.__all__]
    found["running"] += "\n\n::: slicing.testing.run\n\n::: slicing.testing.MicroBatch"
    found["combinators"] = "\n\n".join(["# Reference: combinators", *both])
    return found


def _home(package, name):
    """The full name of an exported object, where it is defined."""
    value = inspect.unwrap(getattr(package, name))
    module = getattr(value, "__module__", None)
    if isinstance(value, str) or module is None or not module.startswith(package.__name__):
        return f"{package.__name__}.{name}"
    return f"{module}.{value.__name__}"


def on_files(files, config):
    """Add the pages of the reference to the site."""
    for name, text in pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_config(config):
    """Add the menu of versions if `mike` builds the site of a tag."""
    if os.environ.get("MIKE_DOCS_VERSION"):
        config.extra["version"] = {"provider": "mike"}
    return config
