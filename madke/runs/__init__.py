"""Runs: one protocol over one dataset, in a directory that can be resumed, replayed and scored."""
