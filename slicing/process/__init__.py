"""Users' functions of windows that fire, their states, and evictors, which remove records before the call."""
