"""What goes with runs: pools, indexes, scores and comparisons."""
