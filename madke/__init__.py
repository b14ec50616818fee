"""madke: batch question answering by debate between language models over shared, retrieved knowledge."""

__version__ = "0.1.0"
