"""A release is one thing: version, changelog, docs, example, and a source distribution that can run its own tests."""

import re
import tomllib
from datetime import date

from rooms import ROOT

import slicing

SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_changelog_has_the_day_of_the_version():
    sections = {found["version"]: found["date"] for found in SECTION.finditer(text("CHANGELOG.md"))}
    assert sections[slicing.__version__]
    days = [date.fromisoformat(day) for day in sections.values() if day]
    assert days == sorted(days, reverse=True)


def test_the_example_asks_for_this_version():
    (ours,) = [
        each
        for each in tomllib.loads(text("examples/fraud/pyproject.toml"))["project"]["dependencies"]
        if each.startswith("spark-slicing")
    ]
    extras, wanted = re.fullmatch(r"spark-slicing\[(.*)\]==(.*)\.\*", ours).groups()
    assert slicing.__version__.startswith(f"{wanted}.")
    assert set(extras.split(",")) <= set(tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"])


def test_the_sdist_has_what_its_tests_import_and_read():
    there = set(re.findall(r"^(?:graft|include) (.*)$", text("MANIFEST.in"), re.MULTILINE))
    folders = {name for each in there for name in each.split()}
    packages = tomllib.loads(text("pyproject.toml"))["tool"]["setuptools"]["packages"]
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    found = re.findall(r"^(?:from|import) (\w+)|ROOT / \"(\w+)\"", code, re.MULTILINE)
    used = {name for names in found for name in names}
    roots = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert (used & roots) - {*packages, "build"} <= folders
