"""What makes two of Anthropic's models the same model, told without a network."""

from typing import Any

import pytest
from support.resolved import resolved

from harness.models.anthropic.model import AnthropicModel
from harness.specs.models import AnthropicSpec

LOCAL = "http://localhost:1"


def identity(url: str, **spec: Any) -> str:  # noqa: ANN401 - fields of AnthropicSpec
    model = AnthropicModel("any", AnthropicSpec(model="m", base_url=url, **spec), {})
    return resolved(model).identity


def test_identity_covers_host_and_what_is_sent_with_the_request() -> None:
    urls = [LOCAL, "https://one.example", "https://two.example"]
    different = {identity(url) for url in urls}
    different |= {identity(LOCAL, extra_body={"top_k": k}) for k in (1, 2)}
    different |= {identity(LOCAL, sends_temperature=False)}
    different |= {identity(LOCAL, is_structured_output=False)}
    different |= {identity(LOCAL, form="schema"), identity(LOCAL, reasoning_max_tokens=9)}

    assert len(different) == 9
    assert identity(urls[1]) == "anthropic|m|host=one.example"


@pytest.mark.parametrize(
    "spec", [{"concurrency": 2}, {"timeout_s": 3.0}, {"attempts": 1}, {"key_env": "OTHER"}]
)
def test_what_changes_speed_alone_is_no_part_of_the_identity(spec: dict[str, Any]) -> None:
    assert identity(LOCAL, **spec) == "anthropic|m"
