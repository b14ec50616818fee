"""The call store: cache, resume and replay in one SQLite file.

Every call that ended is written, with its outcome, before anybody sees it. What is written is never changed: a call
that is made again (because it had failed) adds a row, and the order of rows is the order in which calls ended,
whatever the clock says.

``key`` says which calls are the same, ``calls`` is the file, ``stored`` the model in front of it; ``rows`` and
``pieces`` are how a call lies in the file, ``schema`` its tables, ``pages`` and ``recovery`` what is done when it is
damaged.
"""

from madke.llm.store.calls import CallStore, Paid
from madke.llm.store.key import call_key
from madke.llm.store.rows import Recorded
from madke.llm.store.stored import Stored

__all__ = ["CallStore", "Paid", "Recorded", "Stored", "call_key"]
