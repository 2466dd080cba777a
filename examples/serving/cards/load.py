"""Ask the service for cards, one request after another, and print how long requests take.

python -m cards.load http://127.0.0.1:8000 --requests 1000
"""

from argparse import ArgumentParser
from http.client import HTTPConnection
from statistics import quantiles
from time import perf_counter
from urllib.parse import urlsplit

CARDS = ["ada", "bob", "cyd", "dan", "eve"]


def load(url: str, requests: int) -> list[float]:
    """Return how long each request took, in milliseconds; they share one connection."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=10)
    took = []
    for number in range(requests):
        before = perf_counter()
        connection.request("GET", f"/card/{CARDS[number % len(CARDS)]}")
        answer = connection.getresponse()
        text = answer.read()
        took.append(1000 * (perf_counter() - before))
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {text.decode()}")
    connection.close()
    return took


def told(took: list[float]) -> str:
    """Return the number of requests, and the times that 50 % and 99 % of them take at most."""
    percentiles = quantiles(took, n=100)
    return f"{len(took):,} requests: p50 {percentiles[49]:.2f} ms, p99 {percentiles[98]:.2f} ms"


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000")
    parser.add_argument("--requests", type=int, default=1000)
    given = parser.parse_args()
    print(told(load(given.url, given.requests)))
