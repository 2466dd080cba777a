"""A soak test: a stream runs for an hour and is killed every two minutes; its rows must be exact, its speed constant.

`feed` makes the records, `job` is the process that is killed, `truth` computes the rows from the records alone, and
`steady` compares the end of the run with its beginning. See `python -m benchmarks.soak --help`.
"""
