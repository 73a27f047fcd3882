"""Templates to messages: the one sandboxed Jinja environment.

The only way words reach a model. Folders are searched in order, so that a user's pack overrides
a shipped template of the same relative name. Slot values are data: they pass one filter, are
never rendered again, and cannot open or close a delimiter.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.core import Message, digest
from harness.errors import SpecError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Our own delimiters and the turn markers of the chat templates in use.
_DELIMITERS = re.compile(
    r"<{3,}|>{3,}|<\||\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>", re.IGNORECASE
)


def as_data(text: str) -> str:
    """Text without control characters, its delimiters spaced out so that they delimit nothing."""
    return _DELIMITERS.sub(lambda found: " ".join(found[0]), _CONTROL.sub("", text))


class Prompts:
    """Renders the templates of some folders, the first folder that has a name winning.

    A template NAME is the files NAME.user.j2 and, where there is one, NAME.system.j2. The last
    newline of a file is not part of its text.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        """Search these folders in this order."""
        self._folders = tuple(folders)
        self._variables: dict[str, frozenset[str]] = {}
        self._environment = ImmutableSandboxedEnvironment(
            loader=FileSystemLoader([str(folder) for folder in folders]),
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
        )

    def render(self, template: str, slots: Mapping[str, str]) -> tuple[Message, ...]:
        """The messages of a template: a system turn where it has one, then the user's."""
        system, user = f"{template}.system.j2", f"{template}.user.j2"
        messages = [Message("user", self.text(user, slots))]
        if self._find(system):
            messages.insert(0, Message("system", self.text(system, slots)))
        return tuple(messages)

    def text(self, file: str, slots: Mapping[str, str]) -> str:
        """One template file's text with its slots filled."""
        try:
            compiled = self._environment.get_template(file)
            return compiled.render({name: as_data(value) for name, value in slots.items()})
        except TemplateNotFound as error:
            raise SpecError(
                f"template {error.name!r} is in none of {self._searched()}; "
                "write it, or correct the name in the YAML"
            ) from error
        except TemplateError as error:
            raise SpecError(
                f"{self._find(file)}: {error.message}; slots here: {', '.join(sorted(slots))}"
            ) from error

    def variables(self, template: str) -> frozenset[str]:
        """The slots that a template and all it extends or includes ask for."""
        if template not in self._variables:
            trees = [self._environment.parse(self._source(f)) for f in self._files(template)]
            asked = (meta.find_undeclared_variables(tree) for tree in trees)
            self._variables[template] = frozenset().union(*asked)
        return self._variables[template]

    def digest(self, template: str) -> str:
        """Digest of every file that a template's text depends on."""
        return digest([(file, self._source(file)) for file in self._files(template)])

    def digest_below(self, folder: str) -> str:
        """Digest of every template below a folder."""
        below = self._environment.list_templates(filter_func=lambda n: n.startswith(f"{folder}/"))
        return digest([(file, self._source(file)) for file in sorted(below)])

    def _files(self, template: str) -> list[str]:
        """The template's own files and, after them, those they extend or include."""
        ends = (".system.j2", ".user.j2", ".j2")
        files = [template + end for end in ends if self._find(template + end)]
        for file in files:
            tree = self._environment.parse(self._source(file))
            files += [
                name for name in meta.find_referenced_templates(tree) if name and name not in files
            ]
        return files

    def _source(self, file: str) -> str:
        try:
            return self._environment.loader.get_source(self._environment, file)[0]  # type: ignore[union-attr]  # always set above
        except UnicodeDecodeError as error:
            raise SpecError(
                f"{self._find(file)}: not UTF-8 at byte {error.start}; save it as UTF-8"
            ) from error

    def _find(self, file: str) -> Path | None:
        return next((f / file for f in self._folders if (f / file).is_file()), None)

    def _searched(self) -> str:
        return ", ".join(str(folder) for folder in self._folders)
