"""Measures a line: the other side and ours in turns, each in a process of its own; the best turn of each counts."""

import json
import subprocess
import sys
from typing import Any

from benchmarks import ROOT
from benchmarks.comparisons.comparison import Comparison
from benchmarks.public.line import OURS, Line
from benchmarks.report import results
from benchmarks.running.run import Run

FOLDER = ROOT / ".asv" / "public"
"""Has the kept results, a file each."""


def measured(line: Line, turns: int) -> results.Ratio:
    """Return the ratio of a line, and the runs of its sides."""
    differs = answer(line, "check")
    best: dict[str, Run] = {}
    for _ in range(turns):
        for of in (line.against, OURS):
            found = _run(line, of)
            best[of] = min(best.get(of, found), found, key=lambda run: (run.stopped, run.seconds))
    sides = best[line.against], best[OURS]
    return Comparison(line.name, line.name, sides=lambda: sides, checks=(), goal=line.goal).ratio_of(*sides, differs)


def _run(line: Line, of: str) -> Run:
    fields = answer(line, of)
    return Run(**fields | {name: tuple(map(tuple, fields[name])) for name in ("each", "stages")})


def answer(line: Line, part: str) -> Any:
    """Return the answer of a process for a part of a line. Raises RuntimeError if it fails."""
    command = [sys.executable, "-m", "benchmarks.public.side", line.name, part]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{line.name}, {part}, has failed, and said last: {ended.stderr[-2000:]}")
    return json.loads(ended.stdout.splitlines()[-1])
