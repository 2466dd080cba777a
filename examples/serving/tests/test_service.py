"""The service against sums over all payments, its load, and its page in Chromium. Payments come from files."""

import json
import random
import re
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection

import pytest
from cards.features import LENGTHS, card
from cards.load import CARDS, load, told
from cards.writer import invented, writer

from slicing.serving import Reader, Stale

HOST, ADVANCE = "127.0.0.1", timedelta(seconds=5)
SECONDS = dict(zip(LENGTHS, (60, 600, 3600), strict=True))
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def payments(seed, now, count=500):
    """Payments of the last hours, most of them in the last minutes."""
    choice = random.Random(seed)
    for _ in range(count):
        ago = timedelta(seconds=choice.uniform(0, choice.choice([60, 600, 7200])))
        yield {"card": choice.choice(CARDS[:4]), "ts": now - ago, "cents": choice.randrange(1, 500)}


@pytest.fixture(scope="module")
def made():
    return list(payments(1, datetime.now(UTC)))


@pytest.fixture(scope="module")
def store(spark, made, tmp_path_factory):
    """A store that the writer has written."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "in").mkdir()
    (folder / "in" / "0.json").write_text("\n".join(json.dumps(each, default=datetime.isoformat) for each in made))
    stream = spark.readStream.schema("card string, ts timestamp, cents long").json(str(folder / "in"))
    url = f"sqlite:///{folder}/features.db"
    writer(stream, url, str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    return url


def expected(made, name, at, start):
    """What the payments of a card in a window say."""
    cents = [each["cents"] for each in made if each["card"] == name and start <= each["ts"] < at]
    return {"payments": len(cents), "cents": sum(cents) if cents else None, "largest": max(cents, default=None)}


@contextmanager
def serving(reader):
    """The address of a running service."""
    uvicorn = pytest.importorskip("uvicorn")
    from cards.service import application

    server = uvicorn.Server(uvicorn.Config(application(reader), host=HOST, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"{HOST}:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def asked(address, path):
    connection = HTTPConnection(address, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_an_answer_has_all_payments_of_its_windows(store, made):
    with serving(Reader(store, card)) as address:
        for name in CARDS:
            status, text = asked(address, f"/card/{name}")
            answer = json.loads(text)
            at = datetime.fromisoformat(answer["at"])
            assert status == 200
            assert answer["windows"].keys() == LENGTHS.keys()
            for window, found in answer["windows"].items():
                start = datetime.fromisoformat(found["start"])
                size = timedelta(seconds=SECONDS[window])
                assert size <= at - start < size + ADVANCE
                assert found["values"] == expected(made, name, at, start), (name, window)


class Later:
    """A reader whose clock advances by some time with each read; its answers are kept."""

    def __init__(self, of, now, step):
        self.of, self.step, self.now, self.answers = of, step, now, []

    async def aread(self, key, **options):
        answer = await self.of.aread(key, at=self.now, **options)
        self.now += self.step
        self.answers.append(answer)
        return answer


def test_old_values_are_not_served(store):
    class Old:
        async def aread(self, key, max_age):
            raise Stale(f"values must not be older than {max_age}")

    with serving(Old()) as address:
        assert asked(address, "/card/ada") == (503, '{"error":"values must not be older than 10 minutes"}')


def test_a_thousand_requests(store):
    with serving(Reader(store, card)) as address:
        took = load(f"http://{address}", 1000)
    print(told(took))
    assert len(took) == 1000
    assert told([1.0] * 99 + [5.0] * 2) == "101 requests: p50 1.00 ms, p99 5.00 ms"


def test_values_move_on_the_page(store, made, tmp_path):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium: apt-get install chromium")
    later = Later(Reader(store, card), max(each["ts"] for each in made), timedelta(seconds=7))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={tmp_path}"]
    with serving(later) as address:
        page = [f"http://{address}/?card=ada", "--dump-dom", "--virtual-time-budget=8000"]
        dom = subprocess.run([browser, *flags, *page], capture_output=True, text=True, timeout=100).stdout
    points = dom.partition('points="')[2].partition('"')[0].split()
    spent = [answer["1m"]["cents"] or 0 for answer in later.answers][: len(points)]
    assert len(set(spent)) > 3
    assert [float(point.partition(",")[2]) for point in points] == [98 - 96 * cents / max(spent) for cents in spent]
    before, last = (
        [value for of in LENGTHS for value in answer[of].values()] for answer in later.answers[: len(points)][-2:]
    )
    shown = re.findall(r"<td([^>]*)>([^<]*)</td>", dom)
    assert [value for _, value in shown] == ["-" if value is None else str(value) for value in last]
    assert [bool(moved) for moved, _ in shown] == [old != new for old, new in zip(before, last, strict=True)]


def test_payments_are_invented_for_all_cards(spark, tmp_path):
    rows = invented(spark, 100).writeStream.format("memory").queryName("invented").start()
    end = time.monotonic() + 60
    while spark.table("invented").count() < 100 and time.monotonic() < end:
        time.sleep(0.2)
    rows.stop()
    found = spark.table("invented").collect()
    assert {row.card for row in found} == set(CARDS)
    assert all(100 <= row.cents < 10_000 for row in found)
