"""Archives of modules with bytecode beside the sources."""

import importlib.util
import subprocess
import sys
import zipfile

import pytest

from slicing.spark import bytecode

SOURCE = "def where():\n    return where.__code__.co_filename\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An installation whose archive has a package, a module of it, and a file that is none."""
    lib = tmp_path / "python" / "lib"
    lib.mkdir(parents=True)
    with zipfile.ZipFile(lib / "modules.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in (("kept/__init__.py", ""), ("kept/inner.py", SOURCE), ("kept/data.json", "{}")):
            made.writestr(name, text)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path


def contents(home):
    (archive,) = bytecode.archives()
    with zipfile.ZipFile(archive) as found:
        return {name: found.read(name) for name in found.namelist()}


def imported(home):
    """How a new process imports the module."""
    (archive,) = bytecode.archives()
    program = "import kept.inner as m; print(m.__file__, m.where(), m.__loader__.get_source('kept.inner'), sep='\\n')"
    command = [sys.executable, "-S", "-c", program]
    return subprocess.run(command, env={"PYTHONPATH": str(archive)}, check=True, capture_output=True, text=True).stdout


def test_processes_import_bytecode_and_tracebacks_still_show_sources(home, capsys):
    before, (archive,) = contents(home), bytecode.archives()
    assert imported(home).splitlines()[0] == f"{archive}/kept/inner.py"
    assert not bytecode.has_bytecode(archive)
    assert bytecode.main() == 0
    assert f"{archive}: with bytecode of Python 3." in capsys.readouterr().out
    assert bytecode.has_bytecode(archive)
    made = contents(home)
    assert {name: made[name] for name in before} == before
    assert made.keys() - before.keys() == {"kept/__init__.pyc", "kept/inner.pyc"}
    shown = imported(home)
    assert shown.splitlines()[:2] == [f"{archive}/kept/inner.pyc", f"{archive}/kept/inner.py"]
    assert SOURCE in shown
    assert bytecode.main() == 0, "once more"
    assert contents(home) == made
    assert [path.name for path in archive.parent.iterdir()] == ["modules.zip"]


def test_another_version_of_python_goes_by_the_sources(home):
    (archive,) = bytecode.archives()
    bytecode.main()
    made = contents(home)
    with zipfile.ZipFile(archive, "w") as other:
        for name, content in made.items():
            other.writestr(name, content.replace(importlib.util.MAGIC_NUMBER, b"\0\0\r\n", 1))
    assert not bytecode.has_bytecode(archive)
    assert imported(home).splitlines()[0] == f"{archive}/kept/inner.py"
    bytecode.main()
    assert contents(home) == made


def test_what_cannot_be_written_or_is_not_there_is_said(home, capsys, monkeypatch):
    (archive,) = bytecode.archives()
    archive.with_suffix(".new").mkdir()
    assert bytecode.main() == 1
    assert "run it as the user who installed Spark." in capsys.readouterr().err
    monkeypatch.setenv("SPARK_HOME", str(home / "elsewhere"))
    assert bytecode.main() == 1
    assert "set `SPARK_HOME` to where Spark is installed." in capsys.readouterr().err
