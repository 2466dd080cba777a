"""A PostgreSQL cluster of its own, from what the system has installed."""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.process import HOST, LOG_END, READY_SECONDS, Unavailable, free_ports, running

DEBIAN = Path("/usr/lib/postgresql")
USER = "postgres"
READY = "ready to accept connections"
QUICK = ("fsync=off", "full_page_writes=off", "unix_socket_directories=", f"listen_addresses={HOST}")


@contextmanager
def postgres() -> Iterator[str]:
    """The address of an empty database, as libpq takes it. Raises Unavailable if it is not installed.

    PostgreSQL does not run as root: then it runs as the user whom Debian's package makes.
    """
    programs, owner = _programs(), USER if os.geteuid() == 0 else None
    password, (port,) = secrets.token_hex(16), free_ports(1)
    # Not in a folder of pytest's, which are closed to other users.
    with tempfile.TemporaryDirectory(prefix="slicing-postgres-") as made:
        folder = Path(made)
        _initialise(programs, folder, password, owner)
        command = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(port)]
        command += [part for setting in QUICK for part in ("-c", setting)]
        with running(command, folder / "log", port, user=owner):
            _wait(folder / "log")
            yield f"postgresql://{USER}:{password}@{HOST}:{port}/postgres"


def _initialise(programs: Path, folder: Path, password: str, owner: str | None) -> None:
    data, secret = folder / "data", folder / "password"
    data.mkdir()
    secret.write_text(password)
    if owner:
        for each in (folder, data, secret):
            shutil.chown(each, owner)
    options = ["-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--no-sync"]
    command = list(map(str, [programs / "initdb", *options]))
    done = subprocess.run(command, user=owner, capture_output=True, text=True, cwd="/", check=False)
    if done.returncode:
        raise RuntimeError(f"initdb: {(done.stdout + done.stderr)[-LOG_END:]}")


def _wait(log: Path) -> None:
    """Its port answers before the database has started, and then refuses connections."""
    until = time.monotonic() + READY_SECONDS
    while READY not in log.read_text(errors="replace") and time.monotonic() < until:
        time.sleep(0.1)


def _programs() -> Path:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    versions = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise Unavailable("PostgreSQL is not installed (Debian: `apt-get install postgresql`)")
    return versions[-1].parent
