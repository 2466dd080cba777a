"""The short form of the soak, on Spark: killed, started again, and with another trigger from half time on."""

import pytest

from benchmarks.soak.__main__ import main


@pytest.mark.long
def test_two_minutes_of_the_soak_have_exact_rows(capfd):
    assert main(["--minutes", "2", "--keys", "2000", "--records", "1000", "--pace", "2", "--kill", "25"]) == 0
    assert "all rows are those of brute force" in capfd.readouterr().out
