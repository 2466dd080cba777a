"""The times of the kernels, from the result files of asv."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.report.tables import markdown

FOLDER = ROOT / ".asv" / "results"


def kernels(folder: Path = FOLDER) -> list[tuple[str, str, float]]:
    """Return the newest times of the kernels that asv has stored: benchmark, parameters, seconds."""
    files = [path for path in folder.glob("*/*.json") if path.name != "machine.json"]
    if not files:
        return []
    kept = json.loads(max(files, key=lambda path: path.stat().st_mtime).read_text())
    found = []
    for name, values in kept["results"].items():
        fields = dict(zip(kept["result_columns"], values, strict=False))
        if name.startswith("kernels."):
            found += _combinations(name.removeprefix("kernels."), fields)
    return sorted(found)


def _combinations(name: str, fields: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    for parameters, seconds in zip(product(*fields["params"]), fields["result"] or [], strict=False):
        if isinstance(seconds, float) and seconds == seconds:
            yield name.replace(".time_", ": "), ", ".join(p.strip("'") for p in parameters), seconds


def kernel_table(kernels: Sequence[tuple[str, str, float]]) -> str:
    """Return a table with the milliseconds of each kernel."""
    rows = [(name, parameters, f"{1000 * seconds:,.2f}") for name, parameters, seconds in kernels]
    return markdown(("kernel", "of", "ms"), rows) if rows else ""
