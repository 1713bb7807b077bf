"""Benchmarks: each module prints ratios measured in one run; see README.md."""
