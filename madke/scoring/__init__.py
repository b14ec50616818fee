"""Metrics, statistics and scores of transcripts."""
