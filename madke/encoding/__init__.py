"""Sentence encoders: loaded in this process (``encoders``) or behind an endpoint (``embeddings``)."""
