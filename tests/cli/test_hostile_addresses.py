"""Addresses that are none: one message and exit code 2, before anything is asked."""

import pytest
from support.toy import Lines, Toy


@pytest.mark.parametrize("url", ["http://[::1", "http://h:abc/v1", f"http://{'a' * 5_000}/v1"])
def test_it_is_told_once(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: Lines, url: str
) -> None:
    monkeypatch.setenv("HARNESS_SERVER_URL", url)

    assert toy.run(model="alpha") == 2

    assert "is no server address" in capsys.readouterr().err
