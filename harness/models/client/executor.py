"""Items to results: asyncio workers in a background thread, results in the calling thread.

Nothing here knows a request, a retry or a server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Completed(Generic[_Result]):
    """A result, and whether it occupies a slot until the caller is done with it."""

    result: _Result
    holds_slot: bool = False


Worker = Callable[[_Item], Awaitable[Completed[_Result] | None]]
"""Processes one item; None ends the worker, because no further item can be processed."""


@dataclass(frozen=True, slots=True)
class _End:
    """The last entry of the result queue, with the error that ended the thread early, if any."""

    error: BaseException | None


class BackgroundExecutor(Generic[_Item, _Result]):
    """A background thread with an event loop and its workers, used from the calling thread.

    A result waits in `_completed` until the caller takes it, and holds its slot until the caller
    asks for the next: whatever ends this process loses no more results than there are slots.
    `release` is called inside the loop with the number of slots that became free.
    """

    def __init__(
        self,
        items: Iterator[_Item],
        session: AbstractAsyncContextManager[Worker[_Item, _Result]],
        *,
        workers: int,
        release: Callable[[int], object],
    ) -> None:
        """Keep the arguments; `start` begins the work."""
        self._items = items
        self._session = session
        self._workers = workers
        self._release = release
        self._completed: SimpleQueue[Completed[_Result] | _End] = SimpleQueue()
        self._slots_done = self._slots_released = 0
        self._is_releasing = False
        self._started = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._run, name="calls", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def results(self) -> Iterator[_Result]:
        """Yield the results as they come; then raise the error that ended the work, if any."""
        while not isinstance(entry := self._completed.get(), _End):
            yield entry.result
            self._slots_done += entry.holds_slot
            if not self._is_releasing:
                self._is_releasing = True
                self._call_in_loop(self._release_slots)
        if entry.error is not None:
            raise entry.error

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
        """Run one loop; put exactly one `_End` into the queue, whatever happens."""
        error: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except asyncio.CancelledError:
            pass
        except BaseException as caught:  # raised again in the calling thread
            error = caught
        self._started.set()
        self._completed.put(_End(error))

    async def _serve(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        try:
            async with self._session as worker, asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work(worker))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _work(self, worker: Worker[_Item, _Result]) -> None:
        for item in self._items:
            completed = await worker(item)
            if completed is None:
                return
            self._completed.put(completed)

    def _release_slots(self) -> None:
        """Release, inside the loop, the slots of the results that the caller is done with."""
        self._is_releasing = False  # before the count is read, or the caller's next could be missed
        done = self._slots_done
        self._release(done - self._slots_released)
        self._slots_released = done
