"""The server that tests of paid calls ask."""

from collections.abc import Iterator

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import BOTH_PRICED, Toy


@pytest.fixture
def stub(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    """A server that gives the judge a 1; both models of the toy home have a price."""
    toy.write("configs/prices.yaml", BOTH_PRICED)
    with StubServer(Script(replies={"Judge": ("1",)})) as server:
        monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
        yield server
