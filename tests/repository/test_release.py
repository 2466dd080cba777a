"""A release is one thing: version, changelog, docs, example, and a source distribution that can run its own tests."""

import re
import tomllib
from datetime import date

import pytest
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


@pytest.mark.parametrize("example", ["fraud", "serving"])
def test_the_examples_ask_for_this_version(example):
    project = tomllib.loads(text(f"examples/{example}/pyproject.toml"))["project"]
    asked = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    ours = [each for some in asked for each in some if each.startswith("spark-slicing")]
    assert ours
    for each in ours:
        extras, wanted = re.fullmatch(r"spark-slicing(?:\[(.*)\])?==(.*)\.\*", each).groups()
        assert slicing.__version__.startswith(f"{wanted}.")
        there = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
        assert set(filter(None, (extras or "").split(","))) <= set(there)


def test_the_sdist_has_what_its_tests_import_and_read():
    there = set(re.findall(r"^(?:graft|include) (.*)$", text("MANIFEST.in"), re.MULTILINE))
    folders = {name for each in there for name in each.split()}
    packages = tomllib.loads(text("pyproject.toml"))["tool"]["setuptools"]["packages"]
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    found = re.findall(r"^(?:from|import) (\w+)|ROOT / \"(\w+)\"", code, re.MULTILINE)
    used = {name for names in found for name in names}
    roots = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert (used & roots) - {*packages, "build"} <= folders
