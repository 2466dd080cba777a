"""The command line: arguments, files as DataFrames, and a session. The one place that knows the combinators."""
