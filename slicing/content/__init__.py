"""The data that are shuffled and stored: partials or records as columns sorted by slice, and their sizes in bytes.

This package knows neither how windows are assembled nor where pages are stored.
"""
