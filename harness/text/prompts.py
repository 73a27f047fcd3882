"""Prompt templates and slot values to messages, in one sandboxed Jinja environment.

Every word that reaches a model passes here. Folders are searched in order, so a user's pack
overrides a shipped template of the same relative name. Slot values are data: one filter removes
control characters and breaks delimiters, and they are never rendered again. A file that is reached
by a link is refused: a pack of somebody else's would have any file of this machine sent to a model.
The sandbox bounds the length of a text, not the time or memory of an expression: whoever renders
templates of a stranger limits the process.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jinja2
from jinja2 import TemplateNotFound, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.errors import SpecError
from harness.parts import Message, digest
from harness.text.cleanup import without_controls

Slot = str | tuple[str, ...]
"""The value of a slot: a text, or a list of texts for a "for" loop of the template."""
LONGEST = 1_000_000
"""The most characters of a rendered text."""

# Our own delimiters and the turn markers of the chat templates in use.
_DELIMITERS = re.compile(
    r"<{3,}|>{3,}|<\||\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<[be]os>",
    re.IGNORECASE,
)
_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f<>|\[]")
"""What every delimiter has one of, and control characters."""


def as_data(text: str) -> str:
    """The text without control characters, with spaces inside each delimiter to disable it."""
    if not _SUSPECT.search(text):  # as nearly every text
        return text
    spaced, text = without_controls(text), ""
    while spaced != text:  # what follows one delimiter may have been part of another
        spaced, text = _DELIMITERS.sub(lambda found: " ".join(found[0]), spaced), spaced
    return spaced


def with_paragraph(text: str, paragraph: str) -> str:
    """The text with a paragraph put in before its last line, where the reply is to begin.

    The filter of that name lets a level guide any prompt, also one of a user's pack.
    """
    opening, _, last = text.rpartition("\n")
    return "\n\n".join(part for part in (opening.rstrip("\n"), paragraph, last) if part)


class _Loader(jinja2.FileSystemLoader):
    """Reads a template only where `find` finds it, which refuses links."""

    def __init__(self, folders: Sequence[Path], find: Callable[[str], Path | None]) -> None:
        """Search these folders in this order."""
        super().__init__([str(folder) for folder in folders])
        self._find = find

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        """The text of a template, its file, and whether that is unchanged."""
        self._find(template)
        return super().get_source(environment, template)


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        raise jinja2.TemplateRuntimeError('a list is shown as if it were a text; use "for" on it')
    return value


def _sandbox(loader: _Loader | None = None) -> ImmutableSandboxedEnvironment:
    sandbox = ImmutableSandboxedEnvironment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        finalize=_shown,
    )
    sandbox.filters["with_paragraph"] = with_paragraph
    return sandbox


class _Needs(NamedTuple):
    """What a template's text names: files (None: a computed name) and slots."""

    files: tuple[str | None, ...]
    slots: frozenset[str]


@lru_cache(maxsize=1024)  # one text is asked for by each variant, and by each run of a process
def _needs(source: str) -> _Needs:
    sandbox = _sandbox()
    sandbox.compile(source, raw=True)  # finds unknown filters, as parse does not
    tree = sandbox.parse(source)
    files = tuple(meta.find_referenced_templates(tree))
    return _Needs(files, frozenset(meta.find_undeclared_variables(tree)))


def _filled(template: jinja2.Template, slots: Mapping[str, Slot]) -> str:
    filling = {
        name: as_data(value) if isinstance(value, str) else tuple(map(as_data, value))
        for name, value in slots.items()
    }
    parts, length = [], 0
    for part in template.generate(filling):
        parts.append(part)
        length += len(part)
        if length > LONGEST:
            fact = f"its text is too long (at most {LONGEST:,} characters)"
            raise jinja2.TemplateRuntimeError(fact)
    return "".join(parts)


class Prompts:
    """Renders the templates of some folders; the first folder that has a name wins.

    A template NAME is the file NAME.user.j2 and, optionally, NAME.system.j2. The last newline of
    a file is not part of its text.
    """

    def __init__(self, folders: Sequence[Path], shipped: Path | None = None) -> None:
        """Search these folders in this order; `shipped` is the one that may hold links."""
        self._folders = tuple(folders)
        self._shipped = shipped  # some installers lay out a package as links
        self._variables: dict[str, frozenset[str]] = {}
        self._there: dict[str, bool] = {}  # of the folders as they were last digested
        self._environment = _sandbox(_Loader(self._folders, self._find))

    def render(self, template: str, slots: Mapping[str, Slot]) -> tuple[Message, ...]:
        """The messages of a template: a system message if it has one, then the user message."""
        system, user = f"{template}.system.j2", f"{template}.user.j2"
        messages = [Message("user", self.text(user, slots))]
        if self._is_there(system):
            messages.insert(0, Message("system", self.text(system, slots)))
        return tuple(messages)

    def text(self, file: str, slots: Mapping[str, Slot]) -> str:
        """The text of one template file with its slots filled."""
        with self._refusing(file, f"; slots here: {', '.join(sorted(slots))}"):
            return _filled(self._environment.get_template(file), slots)

    def fill(self, source: str, *, slots: Mapping[str, Slot], where: str) -> str:
        """A template that is given as text; errors name the file `where` it is."""
        try:
            return _filled(self._environment.from_string(source), slots)
        except TemplateNotFound as error:
            raise self._not_found(str(error.name)) from error
        except jinja2.TemplateError as error:
            fact = f"{where}: {error.message}; slots here: {', '.join(sorted(slots))}"
            raise SpecError(fact) from error

    @contextmanager
    def _refusing(self, file: str, hint: str) -> Iterator[None]:
        """Turn whatever fails in a template, or in what it includes, into an error that names it.

        A template is a program of the user's: it may add a text to a number, or call itself.
        """
        try:
            yield
        except SpecError:
            raise
        except TemplateNotFound as error:
            raise self._not_found(str(error.name or file)) from error
        except jinja2.TemplateSyntaxError as error:
            where = error.filename or self._find(file)
            fact = f"{where}, line {error.lineno}: {error.message}"
            raise SpecError(f"{fact}; correct the template") from error
        except UnicodeDecodeError as error:
            fact = f"not UTF-8 at byte {error.start}"
            raise SpecError(f"{self._find(file)}: {fact}; save it as UTF-8") from error
        except jinja2.TemplateError as error:
            where = getattr(error, "filename", None) or self._find(file)
            raise SpecError(f"{where}: {error.message}{hint}") from error
        except RecursionError as error:
            fact = "nests too deep, or includes or calls itself without end"
            raise SpecError(f"{self._find(file)}: {fact}; make it shorter") from error
        except Exception as error:  # whatever a template does is no bug of ours
            fact = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise SpecError(f"{self._find(file)}: it failed ({fact}){hint}") from error

    def variables(self, template: str) -> frozenset[str]:
        """The slots that a template and all files it extends or includes use."""
        if template not in self._variables:
            asked = [self._needs(file).slots for file in self._files(template)]
            self._variables[template] = frozenset().union(*asked)
        return self._variables[template]

    def digest(self, template: str) -> str:
        """Digest of every file that a template's text depends on."""
        self._there.clear()
        return digest([(file, self._source(file)) for file in self._files(template)])

    def sources(self, template: str) -> dict[str, str]:
        """The text of every file that a template's text depends on, by its name."""
        return {file: self._source(file) for file in self._files(template)}

    def sources_below(self, folder: str) -> dict[str, str]:
        """The text of every template below a folder, and of all that these depend on."""
        names = [name for name in self.names() if name.startswith(f"{folder}/")]
        ends = r"(\.system|\.user)?\.j2$"
        stems = dict.fromkeys(re.sub(ends, "", name) for name in names)
        return {file: text for stem in stems for file, text in self.sources(stem).items()}

    def digest_below(self, folder: str) -> str:
        """Digest of every template below a folder."""
        below = self._environment.list_templates(
            filter_func=lambda name: name.startswith(f"{folder}/") and name.endswith(".j2")
        )
        return digest([(file, self._source(file)) for file in sorted(below)])

    def _files(self, template: str) -> list[str]:
        ends = (".system.j2", ".user.j2", ".j2")
        files = [template + end for end in ends if self._find(template + end)]
        if not files:
            raise self._not_found(f"{template}.user.j2")
        for file in files:
            for name in self._needs(file).files:
                if name is None:
                    raise SpecError(
                        f"{self._find(file)}: extends or includes a file whose name is computed; "
                        "write the name out, so that its text is in the digest"
                    )
                files += [name] if name not in files else []
        return files

    def _needs(self, file: str) -> _Needs:
        source = self._source(file)
        with self._refusing(file, "; correct it"):
            return _needs(source)

    def _source(self, file: str) -> str:
        with self._refusing(file, "; correct it"):
            return self._environment.loader.get_source(self._environment, file)[0]  # type: ignore[union-attr]  # always set above

    def place(self, template: str) -> str:
        """The file of a template's user message, as errors name it."""
        return str(self._find(f"{template}.user.j2") or template)

    def overriding(self, template: str) -> list[str]:
        """The files, in folders before the last one, that a template's text depends on."""
        found = (self._find(file) for file in self._files(template))
        last = self._folders[-1]
        return [str(path) for path in found if path and not path.is_relative_to(last)]

    def overrides(self, pack: Path) -> list[tuple[str, bool]]:
        """Each template file of a pack, and whether another folder has a file of that name."""
        others = [folder for folder in self._folders if folder != pack]
        files = sorted(path.relative_to(pack).as_posix() for path in pack.rglob("*.j2"))
        return [(file, any((other / file).is_file() for other in others)) for file in files]

    def names(self) -> list[str]:
        """Every template file of every folder."""
        return self._environment.list_templates(extensions=["j2"])

    def _not_found(self, file: str) -> SpecError:
        searched = ", ".join(str(folder) for folder in self._folders)
        return SpecError(
            f"template {file!r} is in none of {searched}; write it, or correct the name"
        )

    def _is_there(self, file: str) -> bool:
        if file not in self._there:
            self._there[file] = self._find(file) is not None
        return self._there[file]

    def _find(self, file: str) -> Path | None:
        folder = next((f for f in self._folders if (f / file).is_file()), None)
        if folder is None or folder == self._shipped:
            return folder and folder / file
        path = folder
        for part in Path(file).parts:
            path /= part
            if path.is_symlink():
                raise SpecError(
                    f"{folder / file}: {path} is a link, which may lead to any file of this "
                    "machine; put the text itself there"
                )
        return path
