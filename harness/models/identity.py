"""The identity of models that must read files or ask a server for it: found once, when asked to."""

from abc import ABC, abstractmethod


class Resolvable(ABC):
    """A model with an identity that `resolve` finds out; before that, reading it is a bug."""

    name: str
    _found: tuple[str, str | None] | None = None

    def resolve(self) -> None:
        """Find out which exact model this is; may read files or ask its server.

        Raises ModelError. A second call does nothing.
        """
        if self._found is None:
            self._found = self._identify()

    @property
    def identity(self) -> str:
        """Everything about the model that changes its answers; part of request keys."""
        return self._known[0]

    @property
    def revision(self) -> str | None:
        """A short name of the exact version; None where only the served snapshot shows it."""
        return self._known[1]

    @property
    def _known(self) -> tuple[str, str | None]:
        if self._found is None:
            raise RuntimeError(f"bug: model {self.name} is used before its resolve() was called")
        return self._found

    @abstractmethod
    def _identify(self) -> tuple[str, str | None]:
        """Find the identity and the revision."""
