"""What came out: each result in a file (`results`), docs/performance.md (`page`), its tables and plots from them."""
