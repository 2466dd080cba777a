"""A checkpoint that an earlier version has written continues on Spark: of this package, and of Spark itself."""

import json
import tarfile

import pytest
from conftest import SPARK
from golden.checkpoint import FILES, HERE, SEEN, expected, moved, query, ran, write

from slicing.state.format.header import FORMAT

WRITTEN = {"checkpoint7": (4, 3), "spark40": (4, 0), "spark41": (4, 1), "spark42": (4, 2)}
"""The version of Spark that wrote a checkpoint: that one and newer ones go on with it. All are of format 7."""


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize("name", [name for name, written in WRITTEN.items() if written <= SPARK])
def test_a_checkpoint_of_an_earlier_version_goes_on(spark, tmp_path, name):
    """Files of other addresses follow, as none of the directories is where it was."""
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    moved(tmp_path / "checkpoint")
    write(tmp_path / "files", SEEN, FILES)
    before = json.loads((tmp_path / "rows.json").read_text())
    after = ran(query(spark, tmp_path / "files"), tmp_path / "checkpoint")
    rows = {(world, start): results for world, start, *results in (*before, *after)}
    assert len(rows) == len(before) + len(after), "a window goes out once"
    assert min(len(before), len(after)) > 30
    wanted = expected()
    assert rows == {place: wanted[place] for place in rows}
    last = max(start for _, start in rows)
    assert rows.keys() == {(world, start) for world, start in wanted if start <= last}
    assert FORMAT > 7
