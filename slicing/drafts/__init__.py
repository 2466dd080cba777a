"""A call before its columns are found: what it says, and the rules that need no DataFrame.

This package does not import pyspark: a process that reads served values has definitions, and no Spark."""
