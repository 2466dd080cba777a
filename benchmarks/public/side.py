"""A part of a line in a process of its own: `python -m benchmarks.public.side NAME PART`.

PART is the name of a side, or `check`.

So the memory and the processor time of a side are those of all processes below this one. The last line of the output
is the answer in JSON.
"""

import json
import sys
from dataclasses import asdict

from benchmarks.public import check
from benchmarks.public.catalogue import line
from benchmarks.public.sides import SIDES
from benchmarks.running.session import stop


def main(name: str, part: str) -> None:
    """Print the figures of a side, or how rows differ."""
    found = check.differences(line(name)) if part == "check" else asdict(SIDES[part].run(line(name)))
    stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
