"""The version, in a module of its own: rooms need it, and ``madke`` itself imports them."""

__version__ = "0.5.0"
