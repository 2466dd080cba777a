"""The data that are shuffled and stored: partials or records as columns sorted by slice, and their sizes in bytes.

Neither how windows are assembled nor where pages are kept is known here.
"""
