"""Experiments: grids of runs that share questions, pools and calls, and their cost in advance."""
