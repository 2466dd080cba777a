"""Aggregates: their five functions, the types of their partials, and the kernels that run them.

The algebraic laws of the functions are here too, and the dry run and law checks that run when a query is built.
"""
