"""State of sliding windows that are corrected: a golden file, and how it was made.

Run once, with the code of the commit that brought sliding windows::

    PYTHONPATH=$PWD:$PWD/tests python tests/golden/open_sliding.py
"""

import json
import lzma
import random
from pathlib import Path

from sliding import World, stream

from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import on_close
from slicing.windows.sliding import sliding

FILE = Path(__file__).parent / "open_sliding.json.xz"
SEEN = 25


def world():
    """Left and right windows that say what they replace."""
    made = World(sliding("10 milliseconds"), ("sum", "joined"), on_close(corrections=True, old=True), grace=20_000)
    made.fingerprint = fingerprint_of(made.shape, ["partials"] * 2, [["v"], ["s"]], "1 bucket")
    return made


def micro_batches():
    """Records and watermarks."""
    return list(stream(random.Random("golden"), 40))


def main():
    """Write the file, but never again."""
    if FILE.exists():
        raise SystemExit(f"{FILE} is there; state that has landed is not written again")
    made, batches = world(), json.loads(json.dumps(micro_batches()))
    for records, watermark in batches[:SEEN]:
        made.step(records, watermark)
    content = {"header": made.store.text, "pages": made.store.pages, "batches": batches}
    FILE.write_bytes(lzma.compress(json.dumps(content).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
