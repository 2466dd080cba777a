"""Assembly: compute windows from slices, by trees over a whole matrix, by cached trees, or window by window.

Takes blocks and returns partials of windows. It does not know where blocks are stored.
"""
