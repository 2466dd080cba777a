"""The site in a browser: no broken pictures, no errors in the console, no page, table or code wider than its place.

A headless Chromium opens one page, which opens all others in frames as wide as a phone and as a desk, and posts what it
found. Needs `make docs` first and a browser; left out unless selected with `-m browser` (`make test-site`).
"""

import json
import re
import shutil
import subprocess
import threading
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
SITE = Path(__file__).resolve().parents[2] / "build" / "site"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, DESK = 390, 1280
SECONDS = 120

# Before anything else of a page: what goes wrong is remembered, with what could not be loaded.
WATCH = """<script>
window.wrong = [];
addEventListener("error", e => wrong.push(String(e.message || (e.target && (e.target.src || e.target.href)))), true);
addEventListener("unhandledrejection", e => wrong.push(String(e.reason)));
const said = console.error; console.error = (...text) => { wrong.push(text.join(" ")); said(...text); };
</script>"""
# What may be wider than its box, and scrolls there: measurements; on a phone also wide tables, diagrams and output.
WIDE = ["article:has(#missed-goals-and-their-floors) table"]
ON_A_PHONE = ["table:has(th:nth-child(6))", ".language-text code", ".language-output code"]
# Every page in turn, in a frame of each width, after its pictures.
VISIT = """<!doctype html><meta charset=utf-8><body><script>
const pages = PAGES, widths = WIDTHS, pause = ms => new Promise(done => setTimeout(done, ms));
function cut(inside, width) {
  const scrolls = each => each && (/auto|scroll/.test(getComputedStyle(each).overflowX) || scrolls(each.parentElement));
  const beyond = [...inside.querySelectorAll("table")].filter(each => each.getBoundingClientRect().right > width);
  return beyond.filter(each => !scrolls(each)).length;
}
const scrolling = width => [...WIDE, ...width < 600 ? ON_A_PHONE : []].join();
function hidden(inside, width) {
  const found = [...inside.querySelectorAll("article table, article pre > code")].filter(each => {
    let box = each;
    while (box && !/auto|scroll/.test(getComputedStyle(box).overflowX)) box = box.parentElement;
    return box && box.scrollWidth > box.clientWidth + 1 && !each.matches(scrolling(width));
  });
  return found.map(each => each.innerText.slice(0, 60));
}
async function visit(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:800px;border:0`;
  const loaded = new Promise(done => frame.onload = done);
  frame.src = page; document.body.append(frame); await loaded;
  const inside = frame.contentDocument, pictures = [...inside.images];
  pictures.forEach(each => each.loading = "eager");
  await Promise.all(pictures.map(each => each.decode().catch(() => 0)));
  await pause(30);
  const found = {page, width, wide: inside.documentElement.scrollWidth, wrong: frame.contentWindow.wrong || ["unseen"],
    broken: pictures.filter(each => !each.naturalWidth).map(each => each.src), pictures: pictures.length,
    text: inside.body.innerText.length, cut: cut(inside, width), hidden: hidden(inside, width)};
  frame.remove();
  return found;
}
(async () => {
  const found = [];
  try { for (const page of pages) for (const width of widths) found.push(await visit(page, width)); }
  catch (error) {
    const nothing = {width: 0, wide: 0, broken: [], text: 0, cut: 0, hidden: []};
    found.push({...nothing, page: String(error), wrong: [String(error)]});
  }
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


def pages(site):
    """The pages of a site, but for the one about pages that are not there."""
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "404.html")


def visit(site):
    """The page that visits all pages of a site."""
    values = {"PAGES": pages(site), "WIDTHS": [PHONE, DESK], "WIDE": WIDE, "ON_A_PHONE": ON_A_PHONE}
    return re.sub("|".join(values), lambda name: json.dumps(values[name[0]]), VISIT)


def looked_at(site, scratch):
    """What the browser found on each page at each width."""
    found, done = [], threading.Event()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(site))

        def do_GET(self):
            path = site / self.path.lstrip("/").partition("?")[0]
            if self.path == "/visit":
                self.answer(visit(site))
            elif self.path == "/favicon.ico":
                self.answer("")
            elif path.suffix == ".html" and path.is_file():
                self.answer(path.read_text(encoding="utf-8").replace("<head>", "<head>" + WATCH, 1))
            else:
                super().do_GET()

        def do_POST(self):
            found.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer("")
            done.set()

        def answer(self, text):
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={scratch}"]
    flags += ["--window-size=1400,900", "--remote-debugging-port=0"]
    command = [browser(), *flags, f"http://127.0.0.1:{server.server_port}/visit"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert done.wait(SECONDS), f"no answer within {SECONDS} s"
    finally:
        process.terminate()
        process.wait(20)
        server.shutdown()
        server.server_close()
    return found


@cache
def browser():
    """The path of a Chromium."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def faults(found):
    """What is wrong, a line for each."""
    for each in found:
        place = f"{each['page']} at {each['width']} px"
        yield from (f"{place}: broken picture {source}" for source in each["broken"])
        yield from (f"{place}: {text}" for text in each["wrong"])
        if each["wide"] > each["width"]:
            yield f"{place}: {each['wide']} px wide"
        if each["cut"]:
            yield f"{place}: {each['cut']} tables are cut off and do not scroll"
        yield from (f"{place}: must scroll to be read: {text!r}" for text in each["hidden"])
        if each["text"] < 200:
            yield f"{place}: hardly any text"


@pytest.fixture(scope="module", autouse=True)
def needed():
    if browser() is None:
        pytest.skip("no Chromium: apt-get install chromium")
    if not (SITE / "index.html").exists():
        pytest.skip("no site: make docs")


def test_every_page_is_whole_on_a_phone_and_on_a_desk(tmp_path):
    found = looked_at(SITE, tmp_path)
    assert [each["page"] for each in found[::2]] == pages(SITE)
    assert not list(faults(found))
    assert sum(each["pictures"] for each in found) > 50


def test_what_is_wrong_is_found(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    text = "word " * 100
    for name, body in {
        "fine": "",
        "broken": '<img src="none.png">',
        "wide": '<div style="width:600px">wide</div>',
        "cut": '<div style="overflow:hidden"><table><td><div style="width:600px">cut</div></table></div>',
        "scrolls": '<div style="overflow-x:auto"><table><td><div style="width:600px">scrolls</div></table></div>',
        "hides": '<article><pre><code style="overflow:auto;display:block">' + 60 * "long-" + "</code></pre></article>",
        "prints": '<article><div class="language-output"><pre><code style="overflow:auto;display:block">'
        + 20 * "long-"
        + "</code></pre></div></article>",
        "throws": "<script>throw new Error('thrown')</script>",
        "says": "<script>console.error('said')</script>",
        "missing": '<script src="none.js"></script>',
    }.items():
        head = '<head><meta name="viewport" content="width=device-width"></head>'
        (site / f"{name}.html").write_text(f"<!doctype html>{head}<body>{body}<p>{text}", encoding="utf-8")
    lines = list(faults(looked_at(site, tmp_path / "profile")))
    assert {line.partition(".")[0] for line in lines} == {"broken", "wide", "cut", "hides", "throws", "says", "missing"}
    assert [line for line in lines if line.startswith("wide")] == ["wide.html at 390 px: 608 px wide"]
    assert [line for line in lines if line.startswith("cut")] == [
        "cut.html at 390 px: 1 tables are cut off and do not scroll"
    ]
