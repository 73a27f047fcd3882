"""What a stub server answers in the shape of OpenAI's moderation endpoint.

Pure. A text is flagged where it contains the word FLAG; faults change the body.
"""

from collections.abc import Mapping
from typing import Any

from support.stub_script import Script, Shape

# What a fault changes in the one result of a reply.
RESULTS: Mapping[str, dict[str, Any]] = {
    "nan-score": {"category_scores": {"hate": float("nan")}},
    "text-score": {"category_scores": {"hate": "high"}},
    "null-category": {"categories": {"hate": False, "illicit": None}},
    "flag-alone": {"flagged": False, "categories": {"hate": False, "violence": True}},
    "many-categories": {"category_scores": {f"c{number}": 0.5 for number in range(300)}},
    "escaped-category": {"category_scores": {"\x1b[2J": 0.5}},
    "long-category": {"categories": {"c" * 900: True}},
    "bare-flag": {"categories": {}, "category_scores": {}},
}


def moderation(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    is_flagged = "FLAG" in asked["input"]
    result = {
        "flagged": is_flagged,
        "categories": {"hate": is_flagged, "violence": False},
        "category_scores": {"hate": 0.91 if is_flagged else 0.02, "violence": 0.25},
    }
    body: dict[str, Any] = {"id": "modr-stub", "model": f"{asked['model']}-2024"}
    results = [] if fault == "no-results" else [result | RESULTS.get(fault, {})]
    return body | {"results": results}


MODERATION_SHAPES: Mapping[str, Shape] = {"/v1/moderations": moderation}
