"""The call store: cache, resume and replay in one SQLite file, to which every call that ended is added, in order."""

from madke.llm.store.call_rows import Recorded, call_key
from madke.llm.store.call_store import CallStore, Paid
from madke.llm.store.stored import Stored

__all__ = ["CallStore", "Paid", "Recorded", "Stored", "call_key"]
