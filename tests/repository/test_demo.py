"""What the demo leaves: a page with a picture of its result, and what to do next."""

import re
import shlex
from html.parser import HTMLParser

from benchmarks import ROOT, demo
from benchmarks.demo_page import page
from slicing.cli.parsing import parse


class Page(HTMLParser):
    """The bars of a page by engine, and the elements that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.bars, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self.open.append(tag)
        self.handle_startendtag(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        found = dict(attributes)
        if "data-engine" in found:
            self.bars.append((found["data-engine"], float(found["width"])))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_has_a_bar_per_file_and_engine():
    found = Page(page([(1.0, 4.0), (0.5, None)], "2 files\n1 < 4"))
    ours, spark, second, stopped = (width for _, width in found.bars)
    assert (spark / ours, ours / second, stopped) == (4, 2, 0)
    assert not found.open


def test_the_page_needs_no_other_file():
    text = page([(1.0, None)], "1 < 4")
    assert "1 &lt; 4" in text
    assert "stopped" in text
    assert not re.findall(r"src=|href=|url\(|@import|<script", text)


def test_a_page_without_files_has_no_bar():
    assert not Page(page([], "stopped")).bars


def test_the_demo_ends_with_its_page_and_what_to_do_next(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payments.csv").touch()
    left = tmp_path / "new" / "demo.html"
    demo.finish([(1.0, 4.0)], "slicing: 1 record\n", left)
    *_, seen, read, own = capsys.readouterr().out.splitlines()
    assert left.as_uri() in seen
    assert "<svg" in left.read_text(encoding="utf-8")
    assert all((ROOT / each).is_file() for each in re.findall(r"docs/[\w-]+\.md", read))
    _, command = own.split("python -m slicing ")
    assert parse(shlex.split(command))
