"""Records that other people measured, taken out of packages on PyPI; nothing of them is kept in this repository."""

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

LIMIT_SECONDS = 180
PIP = ("download", "--quiet", "--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=15")


@dataclass(frozen=True)
class Package:
    """A wheel, named by its file, whose content is known by its SHA-256. Its dependencies are not needed."""

    requirement: str
    wheel: str
    sha256: str

    def read(self, member):
        """Return the bytes of a file in the wheel, downloaded once; skip the test where the wheel cannot be had."""
        path = _cache() / self.wheel
        if not path.exists():
            self._download(path.parent)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256, f"`{path}` is another file: remove it"
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(member)

    def _download(self, folder):
        command = [sys.executable, "-m", "pip", *PIP, f"--dest={folder}", self.requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"pip could not download {self.requirement} within {LIMIT_SECONDS} seconds")
        if done.returncode:
            pytest.skip(f"pip could not download {self.requirement}: {(done.stderr.splitlines() or ['?'])[-1]}")


def _cache():
    """Where wheels are kept: in the user's own cache."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slicing-real"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


BOKEH = Package(
    "bokeh-sampledata==2026.1",
    "bokeh_sampledata-2026.1-py3-none-any.whl",
    "f40331a40ca30c64a1c1471835aad9006b61b0d9731a3f649ee8cbbf48d3822f",
)
HEARTPY = Package(
    "heartpy==1.2.7",
    "heartpy-1.2.7-py3-none-any.whl",
    "c9df4fbd427bc10b9eaa951a34958a451a586e3c7ec0d1c46488b491abcb8ab7",
)
# MovieLens 100k may be used for research, but neither passed on nor used for revenue: so it is only downloaded.
RECBOLE = Package(
    "recbole==1.2.1",
    "recbole-1.2.1-py3-none-any.whl",
    "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
)
TRAFFIC = Package(
    "traffic==2.13",
    "traffic-2.13-py3-none-any.whl",
    "5e0cd61d931d03103294361542188f08f959a55e862d5cba80ab61291021e66c",
)
