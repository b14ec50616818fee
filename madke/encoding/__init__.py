"""Sentence encoders that are loaded in this process. Those behind an endpoint are ``madke.models.embeddings``."""
