"""Runs: one protocol over one dataset, in one directory that can be resumed, replayed and scored."""
