"""A session for requests whose key, or its absence, is the caller's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import requests


def keyed_session() -> requests.Session:
    """A session that sends only what it is given: requests alone would replace a key by a password of ``~/.netrc``."""
    import requests

    session = requests.Session()
    session.auth = lambda request: request
    return session
