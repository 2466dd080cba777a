"""A stream that runs for an hour and is killed every two minutes: its rows are exact, and it does not slow down.

`feed` makes the records, `job` is the process that is killed, `truth` computes the rows from the records alone, and
`steady` compares the end of the run with its beginning. `python -m benchmarks.soak --help`.
"""
