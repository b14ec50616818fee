"""Building indexes from corpora, and opening sources by name."""
