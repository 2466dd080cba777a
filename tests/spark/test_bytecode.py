"""Archives of modules with bytecode beside the sources."""

import importlib.util
import os
import stat
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

    def refused(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refused)
    assert bytecode.main() == 1
    assert archive.exists()
    assert "run it as the user who installed Spark." in capsys.readouterr().err
    monkeypatch.setenv("SPARK_HOME", str(home / "elsewhere"))
    assert bytecode.main() == 1
    assert "set `SPARK_HOME` to where Spark is installed." in capsys.readouterr().err


def test_mode_owner_and_links_stay_as_they_are(home):
    """An archive that others may read, behind a link, renewed by a user whose new files nobody else may read."""
    (archive,) = bytecode.archives()
    real = home / "elsewhere.zip"
    archive.rename(real)
    archive.symlink_to(real)
    real.chmod(0o664)
    owner = (real.stat().st_uid, real.stat().st_gid)
    before = os.umask(0o077)
    try:
        assert bytecode.main() == 0
    finally:
        os.umask(before)
    assert archive.is_symlink()
    assert bytecode.has_bytecode(real)
    assert stat.S_IMODE(real.stat().st_mode) == 0o664
    assert (real.stat().st_uid, real.stat().st_gid) == owner


def test_a_source_that_is_mended_later_counts(home):
    assert bytecode.main() == 0
    (archive,) = bytecode.archives()
    with zipfile.ZipFile(archive) as found:
        kept = {name: found.read(name) for name in found.namelist()}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in kept.items():
            mended = (
                b"def where():\n    return 'mended and as long as it was'\n" if name == "kept/inner.py" else content
            )
            made.writestr(name, mended)
    assert "mended and as long as it was" in imported(home).splitlines()[1]


def test_two_runs_do_not_meet(home, monkeypatch):
    """Each writes a file of its own, and what is left is whole."""
    written, compiled = [], bytecode.compiled

    def both(archive, target):
        written.append(target)
        if len(written) == 1:
            assert bytecode.main() == 0  # another run, while this one is under way
        return compiled(archive, target)

    monkeypatch.setattr(bytecode, "compiled", both)
    assert bytecode.main() == 0
    assert len(set(written)) == 2
    (archive,) = bytecode.archives()
    assert [path.name for path in archive.parent.iterdir()] == ["modules.zip"]
    assert imported(home).splitlines()[0] == f"{archive}/kept/inner.pyc"


def test_a_module_that_does_not_compile_is_named_and_the_others_have_bytecode(home, capsys):
    (archive,) = bytecode.archives()
    with zipfile.ZipFile(archive, "a") as made:
        made.writestr("kept/broken.py", "def (:\n")
        made.writestr("kept/null.py", "x = 1\0")
    assert bytecode.main() == 0
    said = capsys.readouterr().err
    assert "no bytecode for kept/broken.py, which does not compile (SyntaxError" in said
    assert "kept/null.py" in said
    assert {"kept/inner.pyc", "kept/broken.py"} <= contents(home).keys()
    assert "kept/broken.pyc" not in contents(home)


def test_nothing_is_left_of_a_run_that_fails(home, monkeypatch, capsys):
    before, (archive,) = contents(home), bytecode.archives()

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(bytecode, "compiled", full)
    assert bytecode.main() == 1
    assert "no space left: run it as the user who installed Spark." in capsys.readouterr().err
    assert contents(home) == before
    assert [path.name for path in archive.parent.iterdir()] == ["modules.zip"]
