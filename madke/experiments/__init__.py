"""Experiments: grids of runs over the same questions, pools and calls, and what they will cost."""
