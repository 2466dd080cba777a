"""Aggregates: their five functions, the types of their partials, and the kernels that run them.

The laws that the functions must keep are here too, and what is tried of them while a query is built.
"""
