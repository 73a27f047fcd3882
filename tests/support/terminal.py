"""What a program shows on a terminal of some columns: stdout and stderr, each on its own."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).parents[2]
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[mK]")


def on_terminal(
    *arguments: str,
    columns: int = 80,
    keeps_escapes: bool = False,
    environ: Mapping[str, str] | None = None,
) -> tuple[list[str], list[str]]:
    """The lines on stdout and on stderr of Python with some arguments."""
    own = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    own |= {"COLUMNS": str(columns), "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    own |= environ or {}
    ends = [pty.openpty() for _ in range(2)]
    found: list[bytes] = [b"", b""]
    readers = [Thread(target=_read, args=(end, found, n)) for n, (end, _) in enumerate(ends)]
    for reader in readers:
        reader.start()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=ends[0][1], stderr=ends[1][1], env=own
    )
    for _, child in ends:
        os.close(child)
    process.wait(60)
    for reader, (end, _) in zip(readers, ends, strict=True):
        reader.join(10)
        os.close(end)
    out, err = ((text if keeps_escapes else _ESCAPES.sub("", text)) for text in map(_text, found))
    return out.splitlines(), err.splitlines()


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").replace("\r", "")


def _read(end: int, found: list[bytes], place: int) -> None:
    while True:
        try:
            data = os.read(end, 100_000)
        except OSError:  # Linux says so at the end
            return
        if not data:
            return
        found[place] += data
