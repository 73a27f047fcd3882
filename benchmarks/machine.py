"""The machine to a line of text, and whether it is idle enough to be measured on."""

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MOST_LOAD = 0.25
"""Processes that may want each core, on average over the last minute."""
PACKAGES = ("torch", "transformers", "tokenizers", "openai", "aiohttp", "pyarrow", "numpy")
PEERS = ("lm_eval", "inspect_ai", "transformers", "torch")


class Busy(Exception):
    """The machine has other work; the message says how much, and what to do."""


def check_idle(load: float, cores: int, *, is_forced: bool) -> bool:
    """Whether the machine is idle; raises Busy if it is not, unless that is forced.

    `load` is the load average of the last minute.
    """
    most = MOST_LOAD * cores
    if load <= most:
        return True
    if is_forced:
        return False
    raise Busy(
        f"load average {load:.2f} on {cores} cores: figures would be of the other programs' work, "
        f"too; stop them and wait until it is below {most:.2f} (`uptime` shows it), or give "
        "--force, and the results say that the machine was loaded"
    )


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def described() -> str:
    """Processor, cores, memory, system and Python; no name of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = (
        _processor(),
        f"{cores()} cores",
        f"{memory:.0f} GiB",
        f"{platform.system()} {platform.release().split('-')[0]}",
        f"Python {platform.python_version()}",
    )
    return ", ".join(part for part in parts if part)


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    names = [line for line in path.read_text("utf-8").splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.machine()


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The versions of packages in this environment; those that are not there are left out."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def versions_of(python: Path, packages: Sequence[str] = PEERS) -> dict[str, str]:
    """The same in another environment."""
    code = (
        "import sys\nfrom importlib.metadata import version, PackageNotFoundError\n"
        "for n in sys.argv[1:]:\n"
        "    try:\n        print(n, version(n))\n"
        "    except PackageNotFoundError:\n        pass"
    )
    said = subprocess.run(
        [str(python), "-c", code, *packages], capture_output=True, text=True, check=True
    )
    return dict(line.split() for line in said.stdout.splitlines())
