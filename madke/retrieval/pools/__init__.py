"""Pools: what is in a pool file, building one from sources, live search."""
