"""From transcripts to numbers: metrics, statistics, scores."""
