"""The repositories in `examples`: each one's own tests pass in a copy: `make test-examples`."""

import subprocess
import sys

import pytest
from copies import EXAMPLES, PATIENCE, copied, environment

NAMES = sorted(each.name for each in EXAMPLES.iterdir() if each.is_dir())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_own_tests_pass_in_a_copy(name, tmp_path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    folder = copied(name, tmp_path)
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_its_readme_names_all_of_its_files(name, tmp_path):
    folder = copied(name, tmp_path)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    there = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    unnamed = {"README.md", "pyproject.toml", "tests/conftest.py"}
    assert {each for each in there - unnamed if each not in readme and not each.endswith("/__init__.py")} == set()
