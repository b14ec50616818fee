"""The call store: cache, resume and replay in one SQLite file.

Every call that ended is written, with its outcome, before anybody sees it. What is written is never changed: a call
that is made again (because it had failed) adds a row, and the order of rows is the order in which calls ended.

``call_rows`` says which calls are the same and how a call lies in the file, ``call_store`` is the file, ``stored`` the
model in front of it.
"""

from madke.llm.store.call_rows import Recorded, call_key
from madke.llm.store.call_store import CallStore, Paid
from madke.llm.store.stored import Stored

__all__ = ["CallStore", "Paid", "Recorded", "Stored", "call_key"]
