"""State of open sessions, and of what has gone out of them: a golden file, and how it was made.

Run once, with the code of the commit that brought sessions::

    PYTHONPATH=$PWD:$PWD/tests python tests/golden/open_sessions.py
"""

import json
import lzma
import random
from pathlib import Path

from sessions import World, stream

from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import early
from slicing.windows.session import session

FILE = Path(__file__).parent / "open_sessions.json.xz"
SEEN = 25


def world():
    """Sessions of a gap per record, which go out early too."""
    made = World(session(gap_column="gap"), ("sum", "highest"), early(records=3), grace=30_000)
    made.fingerprint = fingerprint_of(made.shape, ["partials"] * 2, [["v"], ["s"]], "1 bucket")
    return made


def micro_batches():
    """Records and watermarks."""
    return list(stream(random.Random("golden"), 40, gaps=[2500, 10_000, 35_000]))


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
