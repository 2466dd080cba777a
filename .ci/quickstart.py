"""Run the blocks of the quickstart, up to its first stream, and compare what they print with what the page shows.

    python quickstart.py docs/quickstart.md

It imports nothing but the installed packages: `python -P` keeps the directory of this script away from them.
"""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LAST = 'writeStream.format("memory")'


def lines(text: str) -> list[str]:
    """Lines without what ends them."""
    return [line.rstrip() for line in text.strip().splitlines()]


def main(page: str) -> int:
    """Run the blocks; return the number of outputs that were compared, 0 if none is that of a stream."""
    namespace: dict[str, Any] = {"__name__": "quickstart"}
    printed, last, compared = "", False, 0
    for language, text in FENCE.findall(Path(page).read_text(encoding="utf-8")):
        if language == "output":
            if lines(text) != lines(printed):
                raise SystemExit(f"the page shows\n{text}\nand the installed package prints\n{printed}")
            compared += 1
            if last:
                namespace["spark"].stop()
                return compared
        elif language == "python":
            output, last = io.StringIO(), LAST in text
            with contextlib.redirect_stdout(output):
                exec(text, namespace)
            printed = output.getvalue()
    return 0


if __name__ == "__main__":
    assert main(sys.argv[1]) >= 2, "the quickstart has changed: it shows no stream"
