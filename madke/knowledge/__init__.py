"""Retrieved knowledge: sources to ask, the store passages are read from, and pools for debates."""
