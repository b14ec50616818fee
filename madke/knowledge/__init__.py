"""Retrieved knowledge: sources, fusion, and the pools that debates read."""
