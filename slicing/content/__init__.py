"""What is shuffled and stored: partials or records as columns sorted by slice, their bytes, and what they take.

Neither how windows are assembled nor where pages are kept is known here.
"""
