"""Templates of strangers: what they link to is never read; what fails in them is one message."""

import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.each import each

from harness.errors import SpecError
from harness.text.prompts import Prompts

SECRET = "the diary of a neighbour"


def pack(folder: Path, **files: str) -> Path:
    """A pack of templates below a folder, and a secret beside it."""
    (folder / "secret").mkdir(parents=True)
    (folder / "secret" / "diary.j2").write_text(SECRET, "utf-8")
    (folder / "pack" / "toy").mkdir(parents=True)
    for name, text in files.items():
        (folder / "pack" / "toy" / f"{name}.user.j2").write_text(text, "utf-8")
    return folder / "pack"


def link_file(path: Path) -> None:
    (path / "toy" / "base.user.j2").symlink_to(path.parent / "secret" / "diary.j2")


def link_relative(path: Path) -> None:
    (path / "toy" / "base.user.j2").symlink_to("../../secret/diary.j2")


def link_chain(path: Path) -> None:
    (path / "toy" / "other.user.j2").symlink_to(path.parent / "secret" / "diary.j2")
    (path / "toy" / "base.user.j2").symlink_to("other.user.j2")


def link_folder(path: Path) -> None:
    (path / "toy").rmdir()
    (path.parent / "secret" / "base.user.j2").write_text(SECRET, "utf-8")
    (path / "toy").symlink_to(path.parent / "secret")


def include_link(path: Path) -> None:
    (path / "toy" / "base.user.j2").write_text('{% include "toy/more.j2" %}', "utf-8")
    (path / "toy" / "more.j2").symlink_to(path.parent / "secret" / "diary.j2")


def include_through_folder(path: Path) -> None:
    (path / "toy" / "base.user.j2").write_text('{% extends "far/diary.j2" %}', "utf-8")
    (path / "far").symlink_to(path.parent / "secret")


def import_link(path: Path) -> None:
    words = '{% import "toy/more.j2" as more %}{{ more }}'
    (path / "toy" / "base.user.j2").write_text(words, "utf-8")
    (path / "toy" / "more.j2").symlink_to(path.parent / "secret" / "diary.j2")


LINKS = (
    *(link_file, link_relative, link_chain, link_folder),
    *(include_link, include_through_folder, import_link),
)


@pytest.mark.parametrize("lay", LINKS)
def test_a_link_in_a_pack_is_refused(tmp_path: Path, lay: object) -> None:
    path = pack(tmp_path)
    assert callable(lay)
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
        *(
            "{{ story + 1 }}",
            "{{ story / 2 }}",
            "{{ 1 / 0 }}",
            "{{ 7 % 0 }}",
            "{{ story - story }}",
        ),
        *("{{ story | round }}", "{{ story | format(1, 2) }}"),
        *("{{ [3, 'a'] | sort }}", "{{ [1] | sum('x') }}", "{{ 5 | join }}", "{{ story() }}"),
        *("{{ '%q' | format(1) }}", "{{ [] | first }}", "{{ (1).x.y }}", "{{ dict(a=1)['b'] }}"),
        *("{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}", "{{ " + "[" * 500 + "]" * 500 + " }}"),
        *("{{ " + "-" * 5_000 + "1 }}", "{% if 1 %}" * 400 + "{% endif %}" * 400),
        *('{% include "toy/base.user.j2" %}', '{% extends "toy/base.user.j2" %}'),
        *(
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "{{ 'a' * 10**11 }}",
            "{{ 2**(9**9) }}",
        ),
        *("{{ range(10**9) | list }}", "{{ [0] * 10**10 }}", "{{ ('a' * 99999) * 99999 }}"),
        *("{{ 'x' | center(10**12) }}", "{{ story.__class__ }}"),
        "{% for a, b in [1] %}{% endfor %}",
        *("{% import 'toy/base.user.j2' as me %}{{ me }}", "{{ 10 ** 5000 }}", "{{ 1e308 ** 2 }}"),
    ],
)
def test_a_template_that_fails_is_one_message_that_names_its_file(text: str) -> None:
    with TemporaryDirectory() as folder:
        prompts = Prompts([pack(Path(folder), base=text)])

        with pytest.raises(SpecError, match=r"base\.user\.j2"):
            used(prompts)


@each(
    "text",
    [
        *('{{ "a".ljust(10**8) }}', '{{ "a".rjust(10**8) | length }}', '{{ "a".center(10**8) }}'),
        *(
            '{{ "1".zfill(10**8) }}',
            '{{ "a\\t".expandtabs(10**8) }}',
            "{{ story | center(10**8) }}",
        ),
        *('{{ "%99999999d" | format(1) }}', '{{ "%*d" | format(10**8, 1) }}'),
        *('{{ "%99999999d" % 1 }}', '{{ "%.99999999f" % 1.5 }}', '{{ "{:99999999}".format(1) }}'),
        *('{{ "{:{w}}".format(1, w=10**8) }}', '{{ "{0:99999999}".format_map({}) }}'),
        *(
            "{{ lipsum(n=100000) }}",
            "{{ story | indent(10**8) }}",
            "{{ 1 | pprint | center(10**8) }}",
        ),
        *("{{ ('a' * 999999).replace('a', 'b' * 999999) }}", "{{ [1] | batch(10**8, 0) | list }}"),
        *(
            "{{ ('a' * 99999) | replace('a', 'b' * 99999) }}",
            "{{ ('ab' * 99999).join('a' * 9999) }}",
        ),
        *("{{ ['a'] | map('center', 10**8) | list }}", "{{ (1).to_bytes(10**8, 'big') }}"),
        "{% set n = namespace(a='a') %}{% for i in range(99) %}{% set n.a = n.a ~ n.a %}{% endfor %}",  # noqa: E501
        "{% set n = namespace(a='a') %}{% for i in range(99) %}{% set n.a = n.a + n.a %}{% endfor %}",  # noqa: E501
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}",
        "{% for i in range(10**9) %}{% endfor %}",
    ],
)
def test_no_template_fills_time_or_memory(text: str) -> None:
    with TemporaryDirectory() as folder:
        prompts = Prompts([pack(Path(folder), base=text)])
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()

        with pytest.raises(SpecError, match=r"base\.user\.j2"):
            prompts.render("toy/base", {"story": "Rain."})
        with pytest.raises(SpecError, match="a file"):
            prompts.fill(text, slots={"story": "Rain."}, where="a file")

        assert time.monotonic() - began < 2
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_modest_widths_and_loops_are_rendered() -> None:
    text = (
        "{{ 'a'.ljust(3) }}|{{ '%5.1f' | format(1.25) }}|{{ '%s %%' % 'x' }}|{{ '{:>4}'.format(7) }}|"  # noqa: E501
        "{% for i in range(300) %}.{% endfor %}|{{ story ~ '!' ~ 1 }}|{{ story | center(9) }}|"
        "{{ 7 % 4 }}|{{ ['a', 'b'] | join(', ') }}|{{ story | replace('R', 'r') }}"
    )
    with TemporaryDirectory() as folder:
        [message] = Prompts([pack(Path(folder), base=text)]).render("toy/base", {"story": "Rain."})

    dots = "." * 300
    assert message.content == f"a  |  1.2|x %|   7|{dots}|Rain.!1|  Rain.  |3|a, b|rain."
