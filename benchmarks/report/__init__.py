"""Stores results in files (`results`) and writes docs/performance.md from them (`page`), with tables and plots."""
