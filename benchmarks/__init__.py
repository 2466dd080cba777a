"""What is measured, and a demo to watch."""
