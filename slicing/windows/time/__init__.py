"""How time is cut: durations, edges on clocks and calendars, and the slices between edges."""
