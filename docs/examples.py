"""An extension of griffe that shows examples in docstrings as code blocks, for the reference of the site."""

import re

from griffe import Extension

EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^.+\n?)*", re.MULTILINE)


def fenced(text):
    """The docstring with a fence around each example, and without the `::` of indented blocks."""
    text = re.sub(r"::[ \t]*$", ":", text, flags=re.MULTILINE)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


class Examples(Extension):
    """Fence the examples of every object."""

    def on_object(self, *, obj, **_):
        """Fence the examples in the docstring of this object."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
