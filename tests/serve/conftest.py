from collections.abc import Iterator

import pytest

from tests.serve.serving import Upstream, endpoint


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "upstream-key")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with endpoint() as running:
        yield running
