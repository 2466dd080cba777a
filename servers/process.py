"""A server's process: its log in a file, ready once its port answers, gone with the block or with who started it."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"
READY_SECONDS = 180.0
STOP_SECONDS = 15.0
LOG_END = 4_000
_PARENT_DEATH_SIGNAL = 1
_LIBC = ctypes.CDLL(None)


class Unavailable(Exception):
    """What a server is made of cannot be had here."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    port: int,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of `command`, once its port answers. Raises RuntimeError with the end of its log if it does not."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=env,
            cwd="/",
            user=user,
            preexec_fn=_dies_with_parent,
        )
    try:
        _wait(process, port, log)
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, then make it."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _dies_with_parent() -> None:
    # A test that is killed runs no `finally`.
    _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((HOST, port)) == os.EX_OK:
                return
        time.sleep(0.1)
    raise RuntimeError(f"no answer at {HOST}:{port}; the log ends: {log.read_text(errors='replace')[-LOG_END:]}")
