"""From slices to windows: trees over a whole matrix or moving forward from close to close, and chosen windows alone.

Blocks in, results out; where blocks are kept is not known here.
"""
