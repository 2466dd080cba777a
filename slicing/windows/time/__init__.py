"""How time is divided: durations, edges on clocks and calendars, and the slices between edges."""
