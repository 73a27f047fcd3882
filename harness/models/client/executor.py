"""Things to what becomes of them, by workers on an event loop in a thread of its own.

The calling thread takes the results as they come. Nothing here knows a request, a retry or a
server.
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
    """A result, and whether it keeps a place until the caller is done with it."""

    result: _Result
    keeps_place: bool = False


Worker = Callable[[_Item], Awaitable[Completed[_Result] | None]]
"""What becomes of a thing; null ends the worker: there is nothing more to be done."""


@dataclass(frozen=True, slots=True)
class _End:
    """The last thing the background thread says, with what ended it too early."""

    error: BaseException | None


class BackgroundExecutor(Generic[_Item, _Result]):
    """The background thread, its loop and its workers, seen from the calling thread.

    A result waits in `_finished` until the caller takes it, and keeps its place until the caller
    asks for the next: whatever ends this process costs no more than may be in work at a time.
    `free` is called inside the loop with how many places are given back.
    """

    def __init__(
        self,
        items: Iterator[_Item],
        session: AbstractAsyncContextManager[Worker[_Item, _Result]],
        *,
        workers: int,
        free: Callable[[int], object],
    ) -> None:
        """Keep all; `start` begins."""
        self._items = items
        self._session = session
        self._workers = workers
        self._give_back = free
        self._finished: SimpleQueue[Completed[_Result] | _End] = SimpleQueue()
        self._done = self._freed = 0
        self._is_freeing = False
        self._started = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._run, name="calls", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def results(self) -> Iterator[_Result]:
        """The results as they come, then what went wrong, if anything did."""
        while not isinstance(item := self._finished.get(), _End):
            yield item.result
            self._done += item.keeps_place
            if not self._is_freeing:
                self._is_freeing = True
                self._tell(self._free)
        if item.error is not None:
            raise item.error

    def stop(self) -> None:
        """Cancel what is in work and wait for the thread to end."""
        if self._thread.ident is None:
            return
        self._started.wait()
        if self._main is not None:
            self._tell(self._main.cancel)
        self._thread.join()

    def _tell(self, what: Callable[[], object]) -> None:
        """Have the loop do something, if it is still there."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has closed: nothing is left to be told
                self._loop.call_soon_threadsafe(what)

    def _run(self) -> None:
        """The thread: one loop, then one `_End`, whatever happens."""
        error: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except asyncio.CancelledError:
            pass
        except BaseException as caught:  # raised again in the calling thread
            error = caught
        self._started.set()
        self._finished.put(_End(error))

    async def _serve(self) -> None:
        """Open the session and work until the things are used up."""
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        try:
            async with self._session as work, asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work(work))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _work(self, work: Worker[_Item, _Result]) -> None:
        """Take one thing after the other, as long as there are any."""
        for item in self._items:
            finished = await work(item)
            if finished is None:
                return
            self._finished.put(finished)

    def _free(self) -> None:
        """Give back, inside the loop, the places of what the caller is done with."""
        self._is_freeing = False  # before the count is read, or the caller's next could be missed
        done = self._done
        self._give_back(done - self._freed)
        self._freed = done
