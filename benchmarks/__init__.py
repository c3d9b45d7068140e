"""Speed as ratios against references measured in the same run: `python -m benchmarks`."""
