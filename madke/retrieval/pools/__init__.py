"""Pools: what is in a pool file, building one from sources, query stages and rerankers, live search."""
