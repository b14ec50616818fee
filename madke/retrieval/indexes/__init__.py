"""Corpora, passages, and Lucene and FAISS indexes over them."""
