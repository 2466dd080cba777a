"""What is calculated: the five functions of an aggregate, the types of its partials, and the kernels that run them.

The laws that the functions must keep are here too, and what is tried of them while a query is built.
"""
