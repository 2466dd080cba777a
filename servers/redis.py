"""A Redis server of its own, from what the system has installed: in memory, nothing is written to a disk."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.process import HOST, Unavailable, free_ports, running


@contextmanager
def redis(*settings: str) -> Iterator[str]:
    """The URL of an empty server; settings are its options. Raises Unavailable if it is not installed."""
    program, (port,) = shutil.which("redis-server"), free_ports(1)
    if program is None:
        raise Unavailable("Redis is not installed (Debian: `apt-get install redis-server`)")
    with tempfile.TemporaryDirectory(prefix="slicing-redis-") as folder:
        options = ["--port", str(port), "--bind", HOST, "--dir", folder, "--save", "", "--appendonly", "no"]
        with running([program, *options, *settings], Path(folder) / "log", port):
            yield f"redis://{HOST}:{port}"
