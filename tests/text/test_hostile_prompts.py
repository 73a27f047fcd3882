"""Templates of strangers: what they link to is never read; what fails in them is one message."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.each import each

from harness.errors import SpecError
from harness.text.prompts import Prompts

SECRET = "the diary of a neighbour"


def pack(folder: Path, **files: str) -> Path:
    """A pack of templates below a folder, and a secret file next to it."""
    (folder / "secret").mkdir(parents=True)
    (folder / "secret" / "diary.j2").write_text(SECRET, "utf-8")
    (folder / "pack" / "toy").mkdir(parents=True)
    for name, text in files.items():
        (folder / "pack" / "toy" / f"{name}.user.j2").write_text(text, "utf-8")
    return folder / "pack"


def link_file(path: Path) -> None:
    (path / "toy" / "base.user.j2").symlink_to(path.parent / "secret" / "diary.j2")


def link_chain(path: Path) -> None:
    (path / "toy" / "other.user.j2").symlink_to("../../secret/diary.j2")
    (path / "toy" / "base.user.j2").symlink_to("other.user.j2")


def link_folder(path: Path) -> None:
    (path / "toy").rmdir()
    (path.parent / "secret" / "base.user.j2").write_text(SECRET, "utf-8")
    (path / "toy").symlink_to(path.parent / "secret")


def include_link(path: Path) -> None:
    (path / "toy" / "base.user.j2").write_text('{% include "toy/more.j2" %}', "utf-8")
    (path / "toy" / "more.j2").symlink_to(path.parent / "secret" / "diary.j2")


def extend_through_folder(path: Path) -> None:
    (path / "toy" / "base.user.j2").write_text('{% extends "far/diary.j2" %}', "utf-8")
    (path / "far").symlink_to(path.parent / "secret")


@pytest.mark.parametrize(
    "lay", [link_file, link_chain, link_folder, include_link, extend_through_folder]
)
def test_a_link_in_a_pack_is_refused(tmp_path: Path, lay: Callable[[Path], None]) -> None:
    path = pack(tmp_path)
    lay(path)
    prompts = Prompts([path])

    for ask in (prompts.digest, prompts.variables, lambda name: prompts.render(name, {})):
        with pytest.raises(SpecError, match="is a link"):
            ask("toy/base")


def test_a_pack_that_is_itself_named_by_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "name").symlink_to(pack(tmp_path, base="Hello."))
    assert Prompts([tmp_path / "name"]).render("toy/base", {})[0].content == "Hello."


def test_a_link_is_refused_also_where_only_a_phrase_of_a_group_is_one(tmp_path: Path) -> None:
    path = pack(tmp_path)
    (path / "toy" / "irony.j2").symlink_to(tmp_path / "secret" / "diary.j2")

    with pytest.raises(SpecError, match="is a link"):
        Prompts([path]).digest_below("toy")


def used(prompts: Prompts) -> None:
    """Do with a template all that a run does."""
    prompts.digest("toy/base")
    prompts.variables("toy/base")
    prompts.render("toy/base", {"story": "Rain."})


@each(
    "text",
    [
        *("{{ story + 1 }}", "{{ story / 2 }}", "{{ 1 / 0 }}", "{{ 7 % 0 }}"),
        *("{{ story | round }}", "{{ story | format(1, 2) }}"),
        *("{{ [3, 'a'] | sort }}", "{{ [1] | sum('x') }}", "{{ 5 | join }}", "{{ story() }}"),
        *("{{ '%q' | format(1) }}", "{{ [] | first }}", "{{ (1).x.y }}", "{{ dict(a=1)['b'] }}"),
        *("{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}", "{{ " + "[" * 500 + "]" * 500 + " }}"),
        *("{{ " + "-" * 5_000 + "1 }}", "{% if 1 %}" * 400 + "{% endif %}" * 400),
        *('{% include "toy/base.user.j2" %}', '{% extends "toy/base.user.j2" %}'),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        *("{{ range(10**9) | list }}", "{{ story.__class__ }}", "{{ 1e308 ** 2 }}"),
        *("{% for a, b in [1] %}{% endfor %}", "{% for i in range(10**9) %}{% endfor %}"),
        "{% import 'toy/base.user.j2' as me %}{{ me }}",
        "{% for a in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}",
        "{{ 'a' * 2_000_000 }}",
    ],
)
def test_a_template_that_fails_is_one_message_that_names_its_file(text: str) -> None:
    with TemporaryDirectory() as folder:
        prompts = Prompts([pack(Path(folder), base=text)])

        with pytest.raises(SpecError, match=r"base\.user\.j2"):
            used(prompts)


LIMITED = """
import resource, sys
from pathlib import Path
from harness.errors import SpecError
from harness.text.prompts import Prompts
resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
try:
    Prompts([Path(sys.argv[1])]).render("toy/base", {"story": "Rain."})
except SpecError as error:
    sys.exit(f"refused: {error}")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a' * 10**11 }}",
        "{{ story | center(10**10) }}",
        "{% set n = namespace(a='a') %}{% for i in range(99) %}{% set n.a = n.a ~ n.a %}{% endfor %}",  # noqa: E501
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    ],
)
def test_a_limited_process_ends_at_a_template_that_wants_all_memory_or_time(
    text: str, tmp_path: Path
) -> None:
    path = pack(tmp_path, base=text)
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60
    )

    assert ended.stderr.startswith("refused:") or ended.returncode < 0


def test_modest_widths_and_loops_are_rendered(tmp_path: Path) -> None:
    text = "{{ 'a'.ljust(3) }}|{{ '%5.1f' | format(1.25) }}|{% for i in range(300) %}.{% endfor %}"
    [message] = Prompts([pack(tmp_path, base=text)]).render("toy/base", {})
    assert message.content == f"a  |  1.2|{'.' * 300}"
