"""The helpers of servers, on a server of Python's own: ready when it answers, and gone whatever happens."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from servers import maven, postgres
from servers.process import HOST, Unavailable, free_ports, running

ROOT = Path(__file__).resolve().parents[2]


def serve(port):
    return [sys.executable, "-m", "http.server", str(port), "--bind", HOST]


def alive(process):
    try:
        # A process that has ended and that nobody has asked about is a zombie.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_ends_with_its_block_also_if_that_fails(tmp_path):
    (port,) = free_ports(1)
    with suppress(ZeroDivisionError), running(serve(port), tmp_path / "log", port) as server:
        assert alive(server.pid)
        raise ZeroDivisionError
    assert not alive(server.pid)


def test_a_server_that_ends_says_why(tmp_path):
    (port,) = free_ports(1)
    command = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    with pytest.raises(RuntimeError, match="no such thing"), running(command, tmp_path / "log", port):
        pass


def test_a_server_does_not_outlive_who_started_it(tmp_path):
    (port,) = free_ports(1)
    code = (
        "import sys, time; from pathlib import Path; from servers.process import running\n"
        f"with running({serve(port)!r}, Path({str(tmp_path / 'log')!r}), {port}) as server:\n"
        "    print(server.pid, flush=True); time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as starter:
        server = int(starter.stdout.readline())
        assert alive(server)
        starter.send_signal(signal.SIGKILL)
    until = time.monotonic() + 10
    while alive(server) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(server)


def test_what_cannot_be_had_is_said_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = tmp_path / "mine"
    project.mkdir()
    (project / "pom.xml").write_text("<project/>")
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(Unavailable, match="not installed"):
        maven.classpath(project)
    (programs / "mvn").write_text("#!/bin/sh\necho '[INFO] so far'\necho '[ERROR] no route to host'\nexit 1\n")
    (programs / "mvn").chmod(0o755)
    with pytest.raises(Unavailable, match=r"^Maven could not build `mine`: \[ERROR\] no route to host$"):
        maven.classpath(project)
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    with pytest.raises(Unavailable, match="apt-get install postgresql"), postgres.postgres():
        pass


def test_nobody_else_can_put_classes_where_java_looks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = maven.private(maven.cache())
    assert made == tmp_path / "cache" / "slicing-servers"
    assert made.stat().st_mode & 0o777 == 0o700
    assert maven.private(made) == made, "it stays"
    made.chmod(0o770)
    with pytest.raises(Unavailable, match="only its owner, who runs this, may write into"):
        maven.private(made)
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(other)
    with pytest.raises(Unavailable, match="only its owner"):
        maven.private(link)
