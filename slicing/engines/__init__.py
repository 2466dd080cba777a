"""The engines: each processes one bucket in a micro-batch. It accepts records, fires windows and saves the state.

Assembly and state are combined only here.
"""
