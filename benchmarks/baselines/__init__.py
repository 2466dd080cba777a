"""The sides of a comparison, one file each: `ours`, and what a user would use instead.

`floor` is ours without any work, `old_commit` is ours at an older commit. A query is a value that takes a DataFrame and
a window (`query`).
"""
