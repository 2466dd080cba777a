"""Runs a `side` and returns its figures (`run`): streams alone (`streams`) or in turns (`turns`), bounded queries
(`bounded`), and rows written for comparison (`written`), all in one Spark `session`.
"""
