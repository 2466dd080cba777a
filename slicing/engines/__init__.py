"""One bucket through its micro-batches: judge what comes, keep it, close windows, show open ones.

Only here assembly and state meet.
"""
