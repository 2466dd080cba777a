"""The kinds of windows: each file here has `KINDS`, by name a function that makes one from a random generator."""

from importlib import import_module
from pathlib import Path

FILES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
KINDS = {name: made for file in FILES for name, made in import_module(f"{__name__}.{file}").KINDS.items()}
