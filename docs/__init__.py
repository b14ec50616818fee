"""The documentation: pages, and the scripts that write or check some of them."""
