"""State of windows of so many records, of partials and of records: a golden file, and how it was made.

Run once, with the code of the commit that brought them::

    PYTHONPATH=$PWD:$PWD/tests python tests/golden/counted.py
"""

import json
import lzma
import random
from pathlib import Path

from counting import World, stream

from slicing.state.format.fingerprint import PARTIALS, WINDOWS, fingerprint_of
from slicing.windows.counting import counting

FILE = Path(__file__).parent / "counted.json.xz"
SEEN = 25
KINDS = {"partials": ("sum", "joined", "highest"), "records": ("alone", "sum")}
"""By name: results. The first ones combine, of the others one does not."""


def world(name):
    """Windows whose advance does not divide their size, of keys that are forgotten now and then."""
    made = World(counting(6, 4, ttl="20 milliseconds"), KINDS[name])
    content = PARTIALS if name == "partials" else WINDOWS
    columns = [*([f"v{at}"] for at in range(len(KINDS[name]))), [None]]
    made.fingerprint = fingerprint_of(made.shape, [content] * len(columns), columns, "1 bucket", "none")
    return made


def micro_batches(name):
    """Records and the clock of each."""
    return [[records, 3 * number] for number, records in enumerate(stream(random.Random(name), 40, keys=5, most=16))]


def main():
    """Write the file, but never again."""
    if FILE.exists():
        raise SystemExit(f"{FILE} is there; state that has landed is not written again")
    found = {}
    for name in KINDS:
        made, batches = world(name), json.loads(json.dumps(micro_batches(name)))
        for records, now in batches[:SEEN]:
            made.step(records, now)
        found[name] = {"header": made.store.text, "pages": made.store.pages, "batches": batches}
    FILE.write_bytes(lzma.compress(json.dumps(found).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
