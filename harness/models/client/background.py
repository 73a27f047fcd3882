"""Requests to responses by asyncio workers in a background thread; no server is known here."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from queue import SimpleQueue
from threading import Event, Thread

from harness.core import Request, Response

Worker = Callable[[Request], Awaitable[Response | None]]
"""Processes one request; None ends the worker, because no further request can be processed."""


class BackgroundExecutor:
    """A background thread with an event loop and its workers, used from the calling thread.

    A result waits in `_completed` until the caller takes it; once the caller asks for the next,
    `release` is called inside the loop. So whatever ends this process loses no more
    results than may be unreleased.
    """

    def __init__(
        self,
        requests: Iterator[Request],
        session: AbstractAsyncContextManager[Worker],
        *,
        workers: int,
        release: Callable[[], object],
    ) -> None:
        """Keep the arguments; `results` begins the work."""
        self._requests, self._session = requests, session
        self._workers, self._release = workers, release
        self._completed: SimpleQueue[Response | BaseException | None] = SimpleQueue()
        self._started = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._run, name="calls", daemon=True)

    def results(self) -> Iterator[Response]:
        """Start, and yield the results as they come; then raise what ended the work early."""
        self._thread.start()
        while isinstance(entry := self._completed.get(), Response):
            yield entry
            self._call_in_loop(self._release)
        if entry is not None:
            raise entry

    def stop(self) -> None:
        """Cancel all work in progress and wait for the thread to end."""
        if self._thread.ident is None:
            return
        self._started.wait()
        if self._main is not None:
            self._call_in_loop(self._main.cancel)
        self._thread.join()

    def _call_in_loop(self, function: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nothing is left to call
                self._loop.call_soon_threadsafe(function)

    def _run(self) -> None:
        """Run one loop; put its error, or None, into the queue as the last entry."""
        error: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except asyncio.CancelledError:
            pass
        except BaseException as caught:  # raised again in the calling thread
            error = caught
        self._started.set()
        self._completed.put(error)

    async def _serve(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        try:
            async with self._session as worker, asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work(worker))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _work(self, worker: Worker) -> None:
        for request in self._requests:
            if (response := await worker(request)) is None:
                return
            self._completed.put(response)
