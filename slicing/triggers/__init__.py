"""When windows fire, what a firing says, and what becomes of late records: values, one trigger a file."""
