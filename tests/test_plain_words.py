"""Plain English: words that no name, docstring, message or page uses."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"\b(told|tells|tell|beside|anew|by and by|lacks|lacking|beforehand|of which|gone through|heard"
    r"|met|stands?(?! (in )?for\b|-in)|told_\w+|_told\w*|tell_\w+|beside_\w+|noted)\b",
    re.I,
)
MEANT = (
    "cannot tell",  # the third answer of a test: fit, unfit, cannot tell
    "file.tell()",
    "def tell(self)",
    "|taste|tell|thank",  # a list of verbs
    "> beside.json",
    "--data beside.json",
    "tells {{ listener }}",  # words of an example that models see
)
"""Where one of the words is right."""


def test_names_messages_and_pages_are_in_plain_english() -> None:
    pages = [*ROOT.glob("harness/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    found = [
        f"{page.relative_to(ROOT)}:{number}: {line.strip()}"
        for page in pages
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if WORDS.search(line) and not any(part in line for part in MEANT)
    ]

    assert found == []
