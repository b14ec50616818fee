"""Runs as people read them: tables, one debate as text, a page."""
