"""Windows that records decide: the relation of (key, window) pairs, and the answers to triggers."""
