"""The unbounded window, which never closes: one total per key."""
