"""Passages from Wikipedia dumps and from books."""
