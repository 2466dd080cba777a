"""The folders that test modules are imported from: functions of tests are pickled by the name of their module."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
_WITH_TESTS = sorted({each.parent for each in TESTS.glob("*/test_*.py")})
FOLDERS = [str(folder) for folder in (ROOT, TESTS, *_WITH_TESTS)]
"""The root of the project, then the tests: helpers, and a folder for each package that is tested."""


def python_path(*more):
    """`PYTHONPATH` for processes that import tests, with `more` entries where there are any."""
    return os.pathsep.join([*FOLDERS, *filter(None, more)])
