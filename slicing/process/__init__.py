"""Functions of users that get the records of a window when it fires, and what is evicted before that."""
