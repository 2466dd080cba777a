"""Every kind of windows under every trigger: a kind gives its definition over raw records, all else follows.

`kinds/` has a file for each kind: what its windows hold, by brute force. `expected.py` says what fires of such windows,
`due.py` what fires early. `scenario.py` runs the stages and the state of a query in this process, and compares. The
tests are in `engines/test_scenarios.py`, and those of early triggers in `triggers/test_early.py`.
"""
