"""Folders of documents: their passages and vectors in the cache, refreshed file by file, and BM25 without Java."""
