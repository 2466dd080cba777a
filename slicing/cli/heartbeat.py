"""Calls a function at intervals from a thread while other code runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def calling_periodically(beat: Callable[[float], float], pause: float) -> Iterator[None]:
    """Call `beat` at intervals while the block runs, first after `pause` seconds.

    `beat` gets the seconds since the start and returns the seconds until its next call. It is not called after the
    block.
    """
    done, began = threading.Event(), time.monotonic()

    def beats() -> None:
        wait = pause
        while not done.wait(wait):
            wait = beat(time.monotonic() - began)

    heart = threading.Thread(target=beats, daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join()
