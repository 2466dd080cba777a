"""Stores results in files (`results`), and writes from them pages with tables and plots (`page`, `guide`)."""
