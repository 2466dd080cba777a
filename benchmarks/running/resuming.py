"""Remembers which benchmarks were measured with the current code, so that a stopped run can be resumed."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import ROOT

CODE = ("slicing", "combinators", "benchmarks")


def digest(root: Path = ROOT) -> str:
    """Return the hash of all code that a figure depends on: the packages and the benchmarks."""
    found = hashlib.sha256()
    for path in sorted(path for folder in CODE for path in (root / folder).rglob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    return found.hexdigest()


@dataclass(frozen=True)
class Measured:
    """The names of completed benchmarks, each with the code and the machine of its run."""

    machine: str
    folder: Path = ROOT / ".asv" / "ran"
    code: str = field(default_factory=digest)

    def __contains__(self, name: str) -> bool:
        path = self.folder / name
        return path.exists() and path.read_text() == self._said

    def add(self, name: str) -> None:
        """Remember that a benchmark was completed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(self._said)

    @property
    def _said(self) -> str:
        return f"{self.code}\n{self.machine}\n"
