"""README and docs hold: every block of code runs and prints what is shown, links lead somewhere, nothing is missing.

Blocks of one file run in order, in one namespace. `spark` is given, and `folder`, `schema`, `payments` and `events` as
the quickstart makes them. A block of `output` shows what the block of `python` before it prints; `UPDATE_DOCS=1` writes
it anew.
"""

import contextlib
import inspect
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import functions

import combinators
import slicing
from docs import chart, pictures, tables

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = {str(path.relative_to(ROOT)): path for path in (*ROOT.glob("*.md"), *DOCS)}
GENERATED = {"docs/performance/measurements.md": ROOT / "docs" / "performance" / "measurements.md"}
"""Pages without code that are written by programs."""
STREAMS = {
    *("concepts", "deploy", "features", "flink-windows", "how-do-i", "how-it-works", "kafka-windows", "live-changes"),
    *("serving", "sources-and-sinks", "state", "triggers", "warm-start", "windows"),
}
"""Pages whose code runs long, as it runs streams."""
SOURCES = [
    path.relative_to(ROOT) for name in ("slicing", "combinators") for path in sorted((ROOT / name).rglob("*.py"))
]
QUICKSTART = ROOT / "docs" / "quickstart.md"
GIVEN = ("spark", "folder", "schema", "payments", "events")
SETUP_BLOCKS = 2  # of the quickstart: the session, the data

FENCE = re.compile(r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass
class Fence:
    """A block between ``` fences, from its first character to its last."""

    language: str
    text: str
    line: int
    start: int
    end: int


def fences(content):
    """The fenced blocks of a page, in order."""
    return [
        Fence(m["language"], m["text"], content.count("\n", 0, m.start("text")) + 1, m.start("text"), m.end("text"))
        for m in FENCE.finditer(content)
    ]


def prose(content):
    """A page without its fenced blocks."""
    return FENCE.sub("", content)


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).strip().replace(" ", "-")


def run(path, block, namespace):
    """What a block prints."""
    printed = io.StringIO()
    # Empty lines in front: a traceback then shows the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return tidy(printed.getvalue())


def tidy(text):
    """Text without spaces at the ends of lines, and without empty lines at its own end."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


@pytest.fixture(scope="module")
def given(spark):
    """What the first blocks of the quickstart make; the other pages use it."""
    namespace = {"__name__": "docs", "spark": spark}
    blocks = [block for block in fences(QUICKSTART.read_text(encoding="utf-8")) if block.language == "python"]
    for block in blocks[:SETUP_BLOCKS]:
        run(QUICKSTART, block, namespace)
    return {name: namespace[name] for name in GIVEN}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if Path(page).stem in STREAMS else []) for page in PAGES],
)
def test_code_runs(page, given):
    path = PAGES[page]
    content = path.read_text(encoding="utf-8")
    # A name that cannot be imported: functions are then pickled by value, as those of a notebook are.
    namespace = {"__name__": f"docs_{path.stem}", **given}
    printed, changes = "", []
    for block in fences(content):
        if block.language == "python":
            printed = run(path, block, namespace)
        elif block.language == "output":
            if os.environ.get("UPDATE_DOCS"):
                changes.append((block, printed))
            else:
                assert printed == block.text, f"{page}:{block.line} shows other output"
    for block, text in reversed(changes):
        content = content[: block.start] + text + content[block.end :]
    if changes:
        path.write_text(content, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_known_languages(page):
    found = {block.language for block in fences(PAGES[page].read_text(encoding="utf-8"))}
    assert found <= {"python", "output", "bash", "text"}, "Python runs here; commands for a shell are `bash`"


@pytest.mark.parametrize("page", PAGES | GENERATED)
def test_links_lead_somewhere(page):
    path = (PAGES | GENERATED)[page]
    for link in LINK.findall(prose(path.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{page}: {link}"
        if anchor:
            headings = HEADING.findall(prose(target.read_text(encoding="utf-8")))
            assert anchor in map(slug, headings), f"{page}: {link}"


CALL = re.compile(r"`([^`]+)`")
COMING_FROM = [page for page in PAGES if "coming-from" in page]


@pytest.mark.parametrize("page", COMING_FROM)
def test_calls_in_tables_for_newcomers_are_calls(page, given):
    """The right-hand side of each line can be called as it stands; what begins with a point is called on a group."""
    names = {name: getattr(slicing, name) for name in slicing.__all__}
    names |= {"C": combinators, "F": functions, **given, "_grouped": slicing.group_by(given["events"], "user")}
    called = 0
    for line in re.split(r"^## What is different", PAGES[page].read_text(encoding="utf-8"), flags=re.MULTILINE)[
        0
    ].splitlines():
        if not line.startswith("| ") or line.startswith("| ---"):
            continue
        for call in CALL.findall(line.rsplit(" | ", 1)[1]):
            if "(" in call and "window_time" not in call and "withWatermark" not in call:
                eval(f"_grouped{call}" if call.startswith(".") else call, names)
                called += 1
    assert called >= 12


def test_pictures_are_what_is_drawn_today_and_are_all_shown():
    there = {path.stem: path.read_text(encoding="utf-8") for path in pictures.FOLDER.glob("*.svg")}
    assert there == pictures.drawn(), "draw them anew: python -m docs.pictures"
    links = {link for path in PAGES.values() for link in LINK.findall(path.read_text(encoding="utf-8"))}
    assert there.keys() == {Path(link).stem for link in links if Path(link).parent.name == "pictures"}


FIGURES = {
    "are {} times as fast as Spark's `window()`": "dense, R = 360, 1,000,000 records / Spark `window()`",
    "and {} times as fast as its update mode": "on_update, dense, R = 360 / Spark's update mode",
    "are {} times as fast as Flink SQL's": "day, R = 60 / Flink, hashmap",
    "needs {} times the processor time": "day, R = 60, on close / Kafka Streams, suppressed, on a 25th",
    "per record) takes {} times as long": "day, R = 1440, long / ours at R = 60",
    "tumbling windows: {} times the bytes": "checkpoint bytes per record, day, R = 60 / Spark tumbling",
    "takes {} times as long as with Spark's": "fixed cost: 1,000 records per micro-batch, R = 360 / Spark tumbling",
}
GIVEN_TIMES = {"60"}
"""Windows per record: nothing that was measured."""


def test_figures_of_the_readme_are_those_of_performance():
    """Every number of times, to the digits that are given; those of the chart are drawn from the same measurements."""
    text, found = PAGES["README.md"].read_text(encoding="utf-8"), chart.measured()
    said = []
    for sentence, title in FIGURES.items():
        before, after = map(re.escape, sentence.split("{}"))
        (figure,) = re.findall(f"{before}([0-9.]+){after}".replace(r"\ ", r"\s+"), text)
        digits = len(figure.partition(".")[2])
        assert f"{found[title][0]:.{digits}f}" == figure, (sentence, found[title])
        said.append(figure)
    every = re.findall(r"([0-9][0-9.,]*) times", text)
    assert not set(every) - set(said) - GIVEN_TIMES - {"10,080"}


def test_the_chart_has_ten_lines_that_are_measured():
    groups = [rows for lines in chart.GROUPS.values() if (rows := chart.faster(chart.measured(), lines))]
    drawn = re.findall(r'data-ratio="([^"]+)"', pictures.drawn()["faster"])
    assert drawn == [chart.shown(ratio) for rows in groups for _, ratio in rows]
    assert len(drawn) == sum(map(len, chart.GROUPS.values())) == 10, "a line of the chart is not measured any more"


def test_the_chart_has_groups_of_what_is_measured():
    title = "day, R = 60, on update / Kafka Streams, on a 25th"
    page = f"| {title} |  | 18.2 | times fewer processor seconds | 1 s | 2 s | 3 | 4 |\n"
    drawn = chart.chart(chart.measured(page))
    assert re.findall(r'data-baseline="([^"]+)" data-ratio="([^"]+)"', drawn) == [
        ("Kafka Streams, processor time", "18")
    ]


def test_every_page_is_linked_from_the_readme():
    links = LINK.findall(PAGES["README.md"].read_text(encoding="utf-8"))
    assert {f"docs/{path.name}" for path in DOCS} <= {link.partition("#")[0] for link in links}


NAVIGATION = re.compile(r'^ +- "?(.+?)"?:(?: (\S+\.md))?$', re.MULTILINE)


def test_the_url_of_a_page_is_its_title_and_no_title_is_there_twice():
    entries = NAVIGATION.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2])
    titles = [title.casefold() for title, _ in entries]
    assert len(set(titles)) == len(titles)
    pages = {path: title for title, path in entries if path not in {"", "index.md"}}
    assert {path.name for path in DOCS} <= {*pages, "index.md"}
    for path, title in pages.items():
        assert slug(title.replace(": ", " ")) == path.removesuffix(".md").replace("/", "-")
        shown = PAGES.get(f"docs/{path}")
        assert shown is None or HEADING.search(shown.read_text(encoding="utf-8"))[1] == title


MOST_WORDS = 35_000


def test_guide_pages_are_short():
    """Words of text, code and output: what is between spaces and has a letter or a digit, so no borders of tables."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *DOCS))
    assert sum(bool(re.search(r"\w", word)) for word in text.split()) <= MOST_WORDS


def test_every_error_has_a_section():
    errors = {
        name
        for name, value in vars(slicing.errors).items()
        if isinstance(value, type) and issubclass(value, slicing.SlicingError)
    }
    headings = HEADING.findall(prose((ROOT / "docs" / "errors.md").read_text(encoding="utf-8")))
    assert errors <= {heading.strip("`") for heading in headings}


def test_tables_of_combinators_are_those_of_the_catalogue():
    page = (ROOT / "docs" / "combinators.md").read_text(encoding="utf-8")
    assert page == tables.written(page), "write them anew: python -m docs.tables"
    named = {
        name for cell in re.findall(r"^\| (`\w+\([^|]*)\|", page, re.MULTILINE) for name in re.findall(r"`(\w+)", cell)
    }
    assert named == set(combinators.__all__)


def test_the_table_of_early_triggers_is_what_kinds_of_windows_declare():
    page = (ROOT / "docs" / "triggers.md").read_text(encoding="utf-8")
    assert page == tables.written_triggers(page), "write it anew: python -m docs.tables"


def test_what_goes_with_what_is_what_building_comes_to():
    page = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
    assert page == tables.written_windows(page), "write it anew: python -m docs.tables"


def test_what_can_be_asked_of_state_is_what_kinds_of_windows_declare():
    page = (ROOT / "docs" / "state.md").read_text(encoding="utf-8")
    assert page == tables.written_state(page), "write it anew: python -m docs.tables"


def test_every_public_name_is_documented():
    words = set()
    for path in PAGES.values():
        content = path.read_text(encoding="utf-8")
        words |= {word for code in re.findall(r"`[^`\n]+`", prose(content)) for word in re.findall(r"\w+", code)}
    assert set(slicing.__all__) <= words


def test_the_changelog_has_this_version_below_what_is_not_released():
    headings = re.findall(r"^## \[(.+?)\]", PAGES["CHANGELOG.md"].read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", slicing.__version__]


def test_the_landing_page_has_this_version_and_how_to_install_it():
    page = PAGES["docs/index.md"].read_text(encoding="utf-8")
    assert f"\nVersion {slicing.__version__}, for Python " in page
    assert "`pip install '.[spark]'`" in page


NOT_YET = re.compile(r"\b(?:not there|not do|does not exist|do not exist) yet\b", re.IGNORECASE)
NAMED = re.compile(r"`\.?([a-z]\w*)(?:\(.*?\)|=)?`")


def denials(content):
    """What a page says is not there yet: sections with such a heading, other paragraphs with such words."""
    for part in re.split(r"^(?=#)", prose(content), flags=re.MULTILINE):
        heading, _, body = part.partition("\n")
        denied = heading.startswith("#") and NOT_YET.search(heading)
        for block in [body] if denied else re.split(r"\n\s*\n", part):
            if denied or NOT_YET.search(block.replace("\n", " ")):
                yield block


def public_names():
    """All that users can call, and the names of its arguments."""
    values = [getattr(slicing, name) for name in slicing.__all__]
    owners = (slicing.Grouped, slicing.Windowed, slicing.FeaturesAt)
    values += [value for owner in owners for value in vars(owner).values()]
    arguments = {name for value in values if inspect.isfunction(value) for name in inspect.signature(value).parameters}
    methods = {name for owner in owners for name in vars(owner)}
    return {*slicing.__all__, *combinators.__all__, *methods, *arguments}


@pytest.mark.parametrize("page", [*PAGES, *map(str, SOURCES)])
def test_what_is_not_there_yet_is_not_there(page):
    """Every such list names things, and none of them exists: who adds one takes it off the lists."""
    for denial in denials((ROOT / page).read_text(encoding="utf-8")):
        names = set(NAMED.findall(denial))
        assert names, f"{page} denies something without a name that can be looked for: {denial}"
        assert not names & public_names()
        assert not [name for name in names if hasattr(slicing, name)]


def test_denials_are_found():
    page = "# A\n\n`a`\n\n## Not there yet\n\n- `.emit(...)`\n\n- `zone=`\n\n## B\n\nIt does not\ndo yet: `c`.\n\n`d`\n"
    assert [NAMED.findall(denial) for denial in denials(page)] == [["emit", "zone"], ["c"]]
    assert {"emit", "hopping", "advance", "gaps", "sum"} <= public_names()


def test_fences_are_found():
    code, output = fences("a\n```python\nx = 1\n```\n\n```output\n1\n```\n")
    assert (code.language, code.text, code.line) == ("python", "x = 1\n", 3)
    assert (output.language, output.text, output.line) == ("output", "1\n", 7)


@pytest.mark.parametrize(("heading", "anchor"), [("How it works", "how-it-works"), ("`lower`, twice", "lower-twice")])
def test_slugs_are_those_of_github(heading, anchor):
    assert slug(heading) == anchor
