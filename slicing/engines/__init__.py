"""One bucket through its micro-batches: accept records that are not late, close windows, emit open ones.

Only here assembly and state meet.
"""
