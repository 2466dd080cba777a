"""Examples in docstrings as blocks of code, for the reference of the site: an extension of griffe, which reads them."""

import re

from griffe import Extension

EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^.+\n?)*", re.MULTILINE)


def fenced(text):
    """A docstring with a fence around each example, and without the colons that announce an indented block."""
    text = re.sub(r"::[ \t]*$", ":", text, flags=re.MULTILINE)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


class Examples(Extension):
    """Fences the examples of everything that is read."""

    def on_object(self, *, obj, **_):
        """Called for each object."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
