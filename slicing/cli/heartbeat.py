"""Something that is done every now and then, from a thread, while something else goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beating(beat: Callable[[float], float], pause: float) -> Iterator[None]:
    """Call `beat` at intervals of some seconds while the block runs, with the seconds since its start.

    It returns how long the next pause is. Behind the block it is not called any more.
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
