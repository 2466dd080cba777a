"""How a `side` is run, and what it took (`run`): streams alone (`streams`) or in turns (`turns`), bounded queries
(`bounded`), rows that are written to be compared (`written`), all in one Spark `session`.
"""
