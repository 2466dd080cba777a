"""State that earlier versions have written is read, and continues with the rows that the raw records have."""

import base64
import json
import zlib

import pyarrow as pa
import pytest
from golden.make import SCENARIOS, fingerprint_of, load, stream_of

from slicing.content.codec import encode
from slicing.content.packing import from_text, unsealed
from slicing.state.format.header import FORMAT
from slicing.state.pages import Pages

STREAMS = load("streams")
READ = (7, FORMAT)


def opened(name, stored, tree=None):
    """A stream that continues from a stored bucket: what must go out next is known from all records so far."""
    stream = stream_of(SCENARIOS[name], tree)
    for each in STREAMS[name][: stored["seen"]]:
        stream.known(*each)
    stream.store.text, stream.store.pages = stored["header"], dict(stored["pages"])
    stream.fingerprint = fingerprint_of(stream)
    return stream


def go_on(stream, name, stored):
    stream.check()
    assert sum(len(stream.step(*each)) for each in STREAMS[name][stored["seen"] :]) > 10
    stream.drain()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("version", READ)
def test_state_of_every_format_goes_on(version, name):
    stored = load(f"format{version}")[name]
    go_on(opened(name, stored), name, stored)


@pytest.mark.parametrize("version", READ)
@pytest.mark.parametrize(
    ("name", "tree"),
    [("two layers", "three_layer"), ("three layers", "recompute"), ("two slices an advance", "three_layer")],
)
def test_other_trees_go_on_with_nodes_made_anew(version, name, tree):
    """Nodes are caches: of the last one, with a tree of each kind, only one aggregate gets another."""
    stored = load(f"format{version}")[name]
    stream = opened(name, stored, tree)
    trees = list(stream.execution_plan.trees)
    assert set(trees) == {tree}
    assert stream.bucket().head.nodes is not None
    assert stream.bucket().head.families[0].trees != trees
    stream.step([])
    head = stream.bucket().head
    assert head.nodes is None
    assert head.families[0].trees == trees
    assert not head.lists
    go_on(stream, name, stored)


def test_older_state_is_written_in_todays_format_and_keeps_its_slice_groups():
    name = "pages of their own"
    stored = load("format7")[name]
    stream = opened(name, stored)
    nodes = [each for each in stream.bucket().head.lists if each.startswith(("two", "three"))]
    stream.step([], 0)
    assert nodes
    assert nodes == list(stream.bucket().head.lists), "nodes of the same trees stay"
    head = content(stream.store.text)
    assert head["format"] == FORMAT
    assert head["layout"]["stripe"] == 4
    assert [family["trees"] for family in head["families"]] == [["two_layer", "three_layer"]]
    assert stream.bucket().head.identity == stream.fingerprint.identity
    assert any(stored["pages"].get(page) == text for page, text in stream.store.pages.items()), "pages stay as they are"


def content(text):
    """The JSON of a header."""
    return json.loads(zlib.decompress(base64.b64decode(unsealed(text))))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_read_is_written_byte_by_byte_as_it_was(name, monkeypatch):
    """Before compression, which is the library's. All pages are read on the way, those of the golden file too."""
    stored, read, get = load(f"format{FORMAT}")[name], set(), Pages.get

    def compared(self, page, shape, generation):
        block, text = get(self, page, shape, generation), from_text(unsealed(self.store.get(page)))
        assert uncompressed(encode(shape, block)) == uncompressed(text)
        read.add(page)
        return block

    monkeypatch.setattr(Pages, "get", compared)
    stream = opened(name, stored)
    head = content(stream.bucket().head.to_text())
    for result in head["results"]:
        result.pop("code", None)  # of this version of Python
        assert result.pop("filtered") in (True, False)  # what this version has learned of the query
    assert list(head.items()) == list(content(stored["header"]).items())
    go_on(stream, name, stored)
    assert read & stored["pages"].keys()


def uncompressed(data):
    """The lengths of a block and its bytes."""
    return data[:16], pa.Codec("zstd").decompress(data[16:], int.from_bytes(data[8:16], "little"), asbytes=True)
