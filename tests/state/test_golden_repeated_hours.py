"""State in which a repeated hour was one hour: it continues if no number changes, otherwise it is refused by name."""

import json
import logging
import lzma

import pytest
from golden.repeated_hours import FILE, QUERIES, SEEN, at, made

from slicing.errors import StateMismatch
from slicing.state.format.header import Header

CONTENT = json.loads(lzma.decompress(FILE.read_bytes()))
REFUSED = {"across a change", "summer", "autumn", "a window across a change"}
CHANGES = at("2027-03-28T01:00"), at("2027-10-31T01:00")


def opened(name):
    query = made(name)
    query.store.text, query.store.pages = CONTENT[name]["header"], dict(CONTENT[name]["pages"])
    return query


def rows(query, name):
    batches = CONTENT[name]["batches"]
    return [query.emit([tuple(each) for each in records], watermark) for records, watermark in batches]


def test_the_state_is_of_the_edges_of_then():
    for name, stored in CONTENT.items():
        text = json.dumps(Header.from_text(stored["header"]).specs)
        assert '"local", "microsecond"' in text, name
        assert "local hours" not in text


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - REFUSED))
def test_it_goes_on_with_the_edges_of_now(name, caplog):
    """The rows are those of a query that has had these edges from its first micro-batch on."""
    whole = made(name)
    wanted = rows(whole, name)[SEEN:]
    query, found = opened(name), []
    with caplog.at_level(logging.WARNING, "slicing"):
        for records, watermark in CONTENT[name]["batches"][SEEN:]:
            found.append(query.emit([tuple(each) for each in records], watermark))
    assert found == wanted
    assert sum(map(len, found)) > 20
    assert caplog.text.count("both instants of a repeated hour of Europe/Berlin") == 1, "it is said once"
    assert '"local hours"' in json.dumps(Header.from_text(query.store.text).specs)
    ends = {end for emitted in found for (*_, end) in emitted}
    assert CHANGES[1] in ends, "the clock goes from 03:00 back to 02:00, and is an edge twice"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_it_is_refused_where_slices_or_windows_would_have_other_numbers(name):
    with pytest.raises(StateMismatch, match=r"are now edges of windows by .* in Europe/Berlin, .* differ"):
        opened(name).bucket()


def test_it_is_refused_without_the_part_of_the_zone_that_tells_it():
    query = opened("quarters")
    head = Header.from_text(query.store.text)
    head.zones = {}
    query.store.put_header(head.to_text())
    with pytest.raises(StateMismatch, match="so the numbers of its slices differ"):
        query.bucket()


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_bucket_without_pages_that_has_seen_no_watermark_goes_on(name):
    """A checkpoint of one micro-batch has such buckets if it has few keys."""
    query = opened(name)
    head = Header.from_text(query.store.text)
    head.zones, head.fresh, head.slice_groups, head.lists, head.watermark = {}, [], {}, {}, 0
    assert head.is_unused
    query.store.text, query.store.pages = head.to_text(), {}
    assert query.bucket()
