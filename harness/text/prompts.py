"""Prompt templates and slot values to messages, in one sandboxed Jinja environment.

The sandbox bounds the length of a text, not the time or memory of an expression: whoever renders
templates of a stranger limits the process.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path

import jinja2
from jinja2 import TemplateNotFound, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.errors import SpecError
from harness.parts import Message, digest
from harness.text.cleanup import without_controls

Slot = str | tuple[str, ...]
"""The value of a slot: a text, or a list of texts for a "for" loop of the template."""
LONGEST = 1_000_000  # the most characters of a rendered text

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
    """The text with a paragraph put in before its last line, where the reply is to begin."""
    opening, _, last = text.rpartition("\n")
    return "\n\n".join(part for part in (opening.rstrip("\n"), paragraph, last) if part)


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        raise jinja2.TemplateRuntimeError('a list is shown as if it were a text; use "for" on it')
    return value


def _sandbox(loader: jinja2.BaseLoader | None = None) -> ImmutableSandboxedEnvironment:
    sandbox = ImmutableSandboxedEnvironment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        finalize=_shown,
    )
    sandbox.filters["with_paragraph"] = with_paragraph
    return sandbox


@lru_cache(maxsize=1024)  # one text is asked for by each variant, and by each run of a process
def _needs(source: str) -> tuple[tuple[str | None, ...], frozenset[str]]:
    """The files that a template names (None: a computed name), and its slots."""
    sandbox = _sandbox()
    sandbox.compile(source, raw=True)  # finds unknown filters, as parse does not
    tree = sandbox.parse(source)
    files = tuple(meta.find_referenced_templates(tree))
    return files, frozenset(meta.find_undeclared_variables(tree))


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
        self._is_there = cache(lambda file: self._find(file) is not None)
        self._template = cache(self._loaded)
        self._environment = _sandbox(jinja2.FunctionLoader(self._load))

    def render(self, template: str, slots: Mapping[str, Slot]) -> tuple[Message, ...]:
        """The messages of a template: a system message if it has one, then the user message."""
        system, user = f"{template}.system.j2", f"{template}.user.j2"
        messages = [Message("user", self.text(user, slots))]
        if self._is_there(system):
            messages.insert(0, Message("system", self.text(system, slots)))
        return tuple(messages)

    def text(self, file: str, slots: Mapping[str, Slot]) -> str:
        """The text of one template file with its slots filled."""
        with self._refusing(file, slots):
            return _filled(self._template(file), slots)

    def fill(self, source: str, *, slots: Mapping[str, Slot], where: str) -> str:
        """A template that is given as text; errors name the file `where` it is."""
        with self._refusing(where, slots):
            return _filled(self._environment.from_string(source), slots)

    @contextmanager
    def _refusing(self, file: str, slots: Mapping[str, Slot] | None = None) -> Iterator[None]:
        """Turn whatever fails in a template, which is a program, into an error that names it."""
        try:
            yield
        except SpecError:
            raise
        except TemplateNotFound as error:
            folders = ", ".join(map(str, self._folders))
            fact = f"template {str(error.name or file)!r} is in none of {folders}"
            raise SpecError(f"{fact}; write it, or correct the name") from error
        except Exception as error:  # whatever a template does is no bug of ours
            where, fact = str(self._find(file) or file), f"{type(error).__name__}: {error}"
            hint = f"slots here: {', '.join(sorted(slots or ()))}" if slots else "correct it"
            if isinstance(error, UnicodeDecodeError):
                fact, hint = f"not UTF-8 at byte {error.start}", "save it as UTF-8"
            elif isinstance(error, jinja2.TemplateError):
                where, fact = str(getattr(error, "filename", None) or where), str(error.message)
            if isinstance(error, jinja2.TemplateSyntaxError):
                where, hint = f"{where}, line {error.lineno}", "correct the template"
            raise SpecError(f"{where}: {fact}; {hint}") from error

    def variables(self, template: str) -> frozenset[str]:
        """The slots that a template and all files it extends or includes use."""
        if template not in self._variables:
            asked = [self._needs(file)[1] for file in self._files(template)]
            self._variables[template] = frozenset().union(*asked)
        return self._variables[template]

    def digest(self, template: str) -> str:
        """Digest of every file that a template's text depends on."""
        self._is_there.cache_clear()
        self._template.cache_clear()
        return digest([(file, self._source(file)) for file in self._files(template)])

    def sources(self, template: str) -> dict[str, str]:
        """The text of every file that a template's text depends on, by its name."""
        return {file: self._source(file) for file in self._files(template)}

    def sources_below(self, folder: str) -> dict[str, str]:
        """The text of every template below a folder, and of all that these depend on."""
        stems = dict.fromkeys(
            re.sub(r"(\.system|\.user)?\.j2$", "", n) for n in self._below(folder)
        )
        return {file: text for stem in stems for file, text in self.sources(stem).items()}

    def digest_below(self, folder: str) -> str:
        """Digest of every template below a folder."""
        return digest([(file, self._source(file)) for file in self._below(folder)])

    def names(self) -> list[str]:
        """Every template file of every folder."""
        found = ((folder, path) for folder in self._folders for path in folder.rglob("*.j2"))
        return sorted({path.relative_to(folder).as_posix() for folder, path in found})

    def place(self, template: str) -> str:
        """The file of a template's user message, as errors name it."""
        return str(self._find(f"{template}.user.j2") or template)

    def overrides(self, pack: Path) -> list[tuple[str, bool]]:
        """Each template file of a pack, and whether another folder has a file of that name."""
        others = [folder for folder in self._folders if folder != pack]
        files = sorted(path.relative_to(pack).as_posix() for path in pack.rglob("*.j2"))
        return [(file, any((other / file).is_file() for other in others)) for file in files]

    def _below(self, folder: str) -> list[str]:
        return [name for name in self.names() if name.startswith(f"{folder}/")]

    def _files(self, template: str) -> list[str]:
        ends = (".system.j2", ".user.j2", ".j2")
        files = [template + end for end in ends if self._find(template + end)]
        for file in files or [f"{template}.user.j2"]:
            for name in self._needs(file)[0]:
                if name is None:
                    fact = f"{self._find(file)}: extends or includes a file whose name is computed"
                    raise SpecError(f"{fact}; write the name out")
                files += [name] if name not in files else []
        return files

    def _needs(self, file: str) -> tuple[tuple[str | None, ...], frozenset[str]]:
        source = self._source(file)
        with self._refusing(file):
            return _needs(source)

    def _source(self, file: str) -> str:
        with self._refusing(file):
            if (found := self._load(file)) is None:
                raise TemplateNotFound(file)
            return found[0]

    def _loaded(self, file: str) -> jinja2.Template:
        template = self._environment.get_template(file)
        template.globals = dict(template.globals)  # Jinja's own mapping is slow to copy
        return template

    def _load(self, file: str) -> tuple[str, str, Callable[[], bool]] | None:
        """The text of a template, its file, and whether that is unchanged, as Jinja wants them."""
        if (path := self._find(file)) is None:
            return None
        there, changed = path, path.stat().st_mtime

        def is_same() -> bool:
            return there.is_file() and there.stat().st_mtime == changed

        return path.read_text("utf-8"), str(path), is_same

    def _find(self, file: str) -> Path | None:
        """The file in the first folder that has it.

        A link is refused: a pack of somebody else's would have any file of this machine sent to a
        model.
        """
        if ".." in Path(file).parts or file.startswith("/"):
            return None
        folder = next((f for f in self._folders if (f / file).is_file()), None)
        if folder is None or folder == self._shipped:
            return folder and folder / file
        path = folder
        for part in Path(file).parts:
            path /= part
            if path.is_symlink():
                raise SpecError(f"{folder / file}: {path} is a link; put the text itself there")
        return path
