"""When results go out, of which windows, and what becomes of late rows: values that only say so."""
