"""Limits of memory and time for what somebody else's files make this process compute."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from harness.errors import StoreError

MOST_BYTES, MOST_SECONDS = 16 << 30, 1_800


@contextmanager
def limited(
    what: str, *, most_bytes: int = MOST_BYTES, most_seconds: int = MOST_SECONDS
) -> Iterator[None]:
    """Raise StoreError where a block takes more CPU seconds or memory; None on systems without.

    `what` names what is computed. The limits of the process are set back afterwards.
    """
    try:
        import resource
    except ImportError:  # not a POSIX system
        yield
        return

    def refuse(number: int, frame: FrameType | None) -> None:
        raise StoreError(f"{what}: took more than {most_seconds} s of CPU; do not trust it")

    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    known = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)}
    before = signal.signal(signal.SIGXCPU, refuse)
    try:
        wanted = {resource.RLIMIT_CPU: spent + most_seconds, resource.RLIMIT_AS: most_bytes}
        for kind, limit in wanted.items():
            hard = known[kind][1]
            is_lower = hard == resource.RLIM_INFINITY or limit <= hard
            resource.setrlimit(kind, (limit if is_lower else hard, hard))
        yield
    except MemoryError as error:
        raise StoreError(
            f"{what}: took more than {most_bytes >> 30} GB; do not trust it"
        ) from error
    finally:
        for kind, limits in known.items():
            resource.setrlimit(kind, limits)
        signal.signal(signal.SIGXCPU, before)
