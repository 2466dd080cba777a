"""State that earlier versions have written is read, and goes on with the rows that the raw records have."""

import pytest
from golden.make import SCENARIOS, load, stream_of

from slicing.pages import Header

STREAMS = load("streams")


def opened(name, stored):
    """A stream that goes on from a stored bucket: what must go out next is known from all records so far."""
    stream = stream_of(SCENARIOS[name])
    for records, watermark, now in STREAMS[name][: stored["seen"]]:
        stream.expect(records, watermark, now)
    stream.late = list(stream.true_late)
    stream.store.text, stream.store.pages = stored["header"], dict(stored["pages"])
    stream.fingerprint = Header.from_text(stored["header"]).fingerprint
    return stream


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("version", [4, 5, 6])
def test_state_of_every_format_goes_on(version, name):
    stored = load(f"format{version}")[name]
    stream = opened(name, stored)
    stream.bucket().check()
    for records, watermark, now in STREAMS[name][stored["seen"] :]:
        stream.step(records, watermark, now)
    assert stream.rows > 10
    stream.drain()
