"""The sides: ours (`ours`), and what a user would take instead, one file each; `floor` is ours without any work, and
`old_commit` ours as it was. A query is a value that takes a DataFrame and a window (`query`).
"""
