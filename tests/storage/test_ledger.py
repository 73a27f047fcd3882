"""What was paid for stays: through kills, full disks, damage and company."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from support.each import each
from support.sketches import HOSTILE, failure, reply, request

from harness.core import Request, Response
from harness.errors import StoreError
from harness.parts import ChoiceScore, Failure, Reason, Usage
from harness.storage.ledger import Ledger

TESTS = Path(__file__).parents[1]


def stored(folder: Path, *calls: tuple[Request, Response]) -> Path:
    """A folder with one segment of these calls; returns the segment."""
    before = set(folder.glob("*"))
    ledger = Ledger(folder)
    for asked, answer in calls:
        ledger.add(asked, answer)
    ledger.close()
    [segment] = set(folder.glob("*.jsonl")) - before
    return segment


def line(asked: Request, answer: Response, *, time: float) -> bytes:
    record = {"key": answer.key, "request": asked, "response": answer, "time": time}
    return msgspec.json.encode(record) + b"\n"


HEAD = (
    "import os, pathlib, resource, sys\nfrom harness.errors import StoreError\n"
    "from harness.storage.ledger import Ledger\nfrom support.sketches import reply, request\n"
    "ledger = Ledger(pathlib.Path(sys.argv[1]))\n"
)
BESIDE = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent), str(TESTS / "storage")]),
}


def ran(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program beside ours that stores in `folder`."""
    return subprocess.run(
        [sys.executable, "-c", HEAD + code, str(folder)],
        env=BESIDE,
        capture_output=True,
        text=True,
        check=False,
    )


def beside(code: str, folder: Path) -> subprocess.Popen[bytes]:
    """Such a program, which waits for a line and is waited for."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HEAD + code, str(folder)]
    program = subprocess.Popen(command, env=BESIDE, stdin=pipe, stdout=pipe, stderr=pipe)
    assert program.stdout is not None
    program.stdout.readline()
    return program


@pytest.mark.parametrize(
    "answer",
    [
        Response("k", texts=("Yes.",)),
        Response("k", texts=("", "two\n\nparts"), stop="length", served="m-2024"),
        Response("k", texts=("x",), usage=Usage(12, 3)),
        Response("k", choice_scores=(ChoiceScore(-0.1234567890123456, 2, 7),)),
        Response("k", vectors=((0.1, -1e-300),)),
        Response("k", failure=Failure(Reason.REFUSED, "I will not.")),
    ],
)
def test_what_is_added_is_found(tmp_path: Path, answer: Response) -> None:
    stored(tmp_path, (request(), answer))
    assert Ledger(tmp_path).find(["k", "another"]) == {"k": answer}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_stored_and_read_back_equal_everywhere(tmp_path: Path, text: str) -> None:
    asked = request()
    stored(tmp_path, (asked, reply(asked, text)))

    sound = text.replace("\ud83d", "\ufffd").replace("\udca9", "\ufffd")
    found = [Ledger(tmp_path).find([asked.key]) for _ in range(2)]
    assert found == [{asked.key: reply(asked, sound)}] * 2


def test_reading_creates_nothing_and_finds_nothing_where_nothing_is(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "calls")

    assert ledger.find(["k"]) == {}
    ledger.close()
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_has_what_was_stored_when_it_was_first_read(tmp_path: Path) -> None:
    first, later = request("first"), request("later")
    stored(tmp_path, (first, reply(first, "one")))
    snapshot, ledger = Ledger(tmp_path, is_snapshot=True), Ledger(tmp_path)
    assert [*snapshot.asked([first.key])] == [*ledger.asked([first.key])] == [first.key]
    stored(tmp_path, (later, reply(later, "two")))
    assert (snapshot.asked([later.key]), [*ledger.asked([later.key])]) == ({}, [later.key])


def test_readers_take_the_union_of_all_segments(tmp_path: Path) -> None:
    calls = [(asked := request(word), reply(asked, word)) for word in ("one", "two", "three")]
    for call in calls:
        stored(tmp_path, call)

    found = Ledger(tmp_path).find([asked.key for asked, _ in calls])

    assert found == {asked.key: answer for asked, answer in calls}
    assert len(list(tmp_path.iterdir())) == 3


def test_a_record_says_what_was_asked_and_when_and_is_found_by_its_key(tmp_path: Path) -> None:
    asked, before = request(), time.time()

    segment = stored(tmp_path / "calls", (asked, reply(asked)))
    (tmp_path / "other").touch()

    record = msgspec.json.decode(segment.read_bytes())
    assert list(record) == ["key", "request", "response", "time"]
    assert (record["key"], record["request"]["sample_id"]) == (asked.key, asked.sample_id)
    assert before <= record["time"] <= time.time()
    assert Ledger(tmp_path / "calls").asked([asked.key, "0" * 64]) == {asked.key: asked}
    assert segment.stat().st_mode == (tmp_path / "other").stat().st_mode, "others may read it"


def test_a_torn_last_line_costs_one_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, last = request("first"), request("last")
    segment = stored(tmp_path, (first, reply(first)), (last, reply(last, "é \x00")))
    whole = segment.read_bytes()
    start = whole.index(b"\n") + 1

    for end in range(start, len(whole)):
        segment.write_bytes(whole[:end])
        caplog.clear()
        assert Ledger(tmp_path).find([first.key, last.key]) == {first.key: reply(first)}
        warned = [record.getMessage() for record in caplog.records]
        assert [f"{segment}:2: torn" in text for text in warned] == [True] * (end > start)
        assert Ledger(tmp_path).find([first.key]) == {first.key: reply(first)}
        assert len(caplog.records) == len(warned), "told once"


def test_a_line_that_another_process_is_still_writing_is_read_once_it_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [request(f"question {number}") for number in range(300)]
    code = (
        "import socket\n"
        "from test_ledger import line\n"
        "path = pathlib.Path(sys.argv[1], f'1-{socket.gethostname()}-{os.getpid()}.jsonl')\n"
        "with path.open('wb', buffering=0) as file:\n"
        "    for number in range(300):\n"
        "        asked = request(f'question {number}')\n"
        "        data = line(asked, reply(asked), time=1.0)\n"
        "        for start in range(0, len(data), 99):\n"
        "            file.write(data[start:start + 99])\n"
    )
    ledger, keys = Ledger(tmp_path), [one.key for one in asked]
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(ran, code, tmp_path)
        while not writing.done():
            ledger.is_missing_any(keys)  # a part was dropped once, and the rest read as a line

    assert not ledger.is_missing_any(keys), writing.result().stderr
    assert not caplog.records


def test_a_torn_segment_is_left_alone_and_the_call_stored_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = request()
    segment = stored(tmp_path, (asked, reply(asked)))
    segment.write_bytes(torn := segment.read_bytes()[:-1])

    stored(tmp_path, (asked, reply(asked, "again")))

    assert Ledger(tmp_path).find([asked.key]) == {asked.key: reply(asked, "again")}
    assert segment.read_bytes() == torn
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize(
    "damage",
    [
        *(b"\n", b"{\n", b"null\n", b"[]\n", b"{}\n", b"\x00\x00\n", b"not json\n", b"\xff\xfe\n"),
        b'{"key": "k"}\n',
        b'{"key": 3, "time": 1}\n',
        b'{"key": "k", "time": 1}\n',
        b'{"key": "k", "time": 1, "response": {"key": "k"}}\n',
        b'{"key": "k", "time": 1, "response": {"key": "k", "texts": []}}\n',
        b'{"key": "k", "time": 1, "response": {"key": "k", "texts": ["a"]}}{"key": "k"}\n',
    ],
)
def test_damage_in_a_whole_line_is_an_error_by_its_place(tmp_path: Path, damage: bytes) -> None:
    asked = request()
    segment = stored(tmp_path, (asked, reply(asked)))
    whole = segment.read_bytes()
    segment.write_bytes(whole + damage + whole)

    with pytest.raises(StoreError, match=r"damaged record .*copy.*asked again") as caught:
        Ledger(tmp_path).find(["k"])

    assert str(caught.value).startswith(f"{segment}:2: ")


@pytest.mark.parametrize("order", list(permutations((0, 1, 2))))
def test_whatever_the_order_of_reading_the_earliest_answer_counts_and_then_the_latest_failure(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    asked = request()
    kinds = {
        "answers": [reply(asked, str(n)) for n in range(3)],
        "failures": [failure(asked, str(n)) for n in range(3)],
        "both": [failure(asked, "early"), reply(asked), failure(asked, "late")],
    }
    found = {}
    for kind, said in kinds.items():
        (tmp_path / kind).mkdir()
        for name, place in zip("abc", order, strict=True):
            record = line(asked, said[place], time=place)
            (tmp_path / kind / f"{name}.jsonl").write_bytes(record)
        found[kind] = Ledger(tmp_path / kind).find([asked.key])[asked.key]

    assert found["answers"].texts == ("0",)
    assert found["failures"].failure == failure(asked, "2").failure
    assert (found["both"].texts, found["both"].failure) == (reply(asked).texts, None)


FAILED = Response("k", failure=Failure(Reason.FAILED, "gone"), usage=Usage(unanswered=1))
REFUSED = Response("k", failure=Failure(Reason.REFUSED, "first"), usage=Usage(2, 1, 0.5))
ANSWERED = Response("k", texts=("Yes.",), usage=Usage(2, 4, 2.0))


@pytest.mark.parametrize(
    ("attempts", "kept", "later"),
    [
        ([ANSWERED, ANSWERED], [0], [1]),
        ([REFUSED, REFUSED], [1, 0], []),
        ([FAILED, REFUSED, FAILED], [1, 0, 2], []),
        ([FAILED, REFUSED, ANSWERED, ANSWERED, REFUSED], [2, 0, 1], [3, 4]),
    ],
)
def test_the_first_answer_counts_with_the_attempts_before_it_and_a_budget_counts_all(
    tmp_path: Path, attempts: list[Response], kept: list[int], later: list[int]
) -> None:
    for place, response in enumerate(attempts):
        own = replace(response, usage=replace(response.usage, prompt_tokens=place))
        (tmp_path / f"{9 - place}.jsonl").write_bytes(line(request(), own, time=place))

    ledger = Ledger(tmp_path)
    usage = ledger.find(["k"])["k"].usage

    assert [part.prompt_tokens for part in usage.with_superseded] == kept
    reasons = [attempts[place].failure for place in kept[1:]]
    assert [p.reason for p in usage.superseded or ()] == [why and why.reason for why in reasons]
    assert [part.prompt_tokens for part in ledger.twice.get("k", ())] == later


def test_a_full_disk_is_an_error_with_a_remedy_and_leaves_no_torn_line(tmp_path: Path) -> None:
    done = ran(
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "try:\n    for n in range(99):\n        asked = request(str(n))\n"
        "        ledger.add(asked, reply(asked))\n        print(asked.key)\n"
        "except StoreError as error:\n    print(error, file=sys.stderr)\n"
        "ledger.close()\n",
        tmp_path,
    )

    [segment], keys = tmp_path.iterdir(), done.stdout.split()
    assert str(tmp_path) in done.stderr
    assert "free some space or choose another --results" in done.stderr
    assert segment.read_bytes().count(b"\n") == len(keys) > 3
    assert segment.read_bytes().endswith(b"}\n")
    assert set(Ledger(tmp_path).find(keys)) == set(keys)


def test_after_a_full_disk_the_same_segment_goes_on(tmp_path: Path) -> None:
    done = ran(
        "ledger.add(request('a'), reply(request('a')))\n"
        "[segment] = pathlib.Path(sys.argv[1]).iterdir()\n"
        "limit = segment.stat().st_size + 99\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "try:\n    ledger.add(request('b'), reply(request('b')))\n"
        "except StoreError:\n    print('full')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "ledger.add(request('c'), reply(request('c')))\nledger.close()\n",
        tmp_path,
    )

    keys = [request(word).key for word in "abc"]
    assert done.stdout == "full\n"
    assert set(Ledger(tmp_path).find(keys)) == {keys[0], keys[2]}


@pytest.mark.parametrize("act", ["check", "find", "add"])
def test_a_file_where_the_folder_should_be_is_the_users_to_mend(tmp_path: Path, act: str) -> None:
    (tmp_path / "results").write_text("notes", "utf-8")
    ledger, asked = Ledger(tmp_path / "results" / "calls"), request()
    acts: dict[str, Callable[[], object]] = {
        "check": ledger.check,
        "find": lambda: ledger.find([asked.key]),
        "add": lambda: ledger.add(asked, reply(asked)),
    }

    with pytest.raises(StoreError, match=r"results/calls: .*Not a directory.*--results"):
        acts[act]()


def test_a_segment_that_cannot_be_read_is_an_error_and_no_call_to_pay_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"a\.jsonl: stored calls cannot be read"):
        Ledger(tmp_path).find(["k"])


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    code = "for n in range(200):\n    asked = request(f'{os.getpid()} {n}')\n"
    code += "    ledger.add(asked, reply(asked))\n    print(asked.key)\nledger.close()\n"
    outputs: list[str] = []
    threads = [
        threading.Thread(target=lambda: outputs.append(ran(code, tmp_path).stdout))
        for _ in range(2)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    keys = {key for output in outputs for key in output.split()}
    assert len(keys) == 400
    assert set(Ledger(tmp_path).find(keys)) == keys
    assert len(list(tmp_path.iterdir())) == 2


def test_a_killed_writer_loses_nothing_it_was_told_is_stored(tmp_path: Path) -> None:
    done = ran(
        "ledger.add(request(), reply(request()))\nprint(request().key, flush=True)\nos._exit(9)\n",
        tmp_path,
    )

    assert done.returncode == 9
    assert set(Ledger(tmp_path).find([done.stdout.strip()])) == {request().key}


@pytest.mark.skipif(sys.platform != "linux", reason="counts system calls in /proc")
def test_the_bytes_of_a_record_are_written_at_once(tmp_path: Path) -> None:
    done = ran(
        "def writes():\n    lines = open('/proc/self/io').read().split()\n"
        "    return int(lines[lines.index('syscw:') + 1])\n"
        "ledger.add(request('first'), reply(request('first')))\n"
        "text, before = 'long ' * 500_000, writes()\n"
        "ledger.add(request(), reply(request(), text))\nprint(writes() - before)\nledger.close()\n",
        tmp_path,
    )

    assert done.stdout == "1\n"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_last_record_is_on_its_way_to_disk_though_none_follows(tmp_path: Path) -> None:
    ledger, asked = Ledger(tmp_path), request()
    ledger.add(asked, reply(asked))
    _put_nowhere(tmp_path)  # so that bringing it to disk leaves a trace: it fails

    [timer] = [part for part in threading.enumerate() if isinstance(part, threading.Timer)]
    timer.join(timeout=5)

    assert (timer.interval <= 0.1, timer.is_alive()) == (True, False)
    with pytest.raises(StoreError, match="cannot store a finished call"):
        ledger.add(asked, reply(asked))
    with pytest.raises(StoreError):
        ledger.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_disk_that_fails_at_the_end_is_told_once(tmp_path: Path) -> None:
    ledger, asked = Ledger(tmp_path), request()
    ledger.add(asked, reply(asked))
    _put_nowhere(tmp_path)

    with pytest.raises(StoreError, match="cannot store a finished call"):
        ledger.close()
    ledger.close()


def _put_nowhere(folder: Path) -> None:
    """Let the segment that this process writes below `folder` lead to what has no disk."""
    [name] = [fd for fd in os.listdir("/proc/self/fd") if _leads_below(fd, folder)]
    with Path("/dev/null").open("wb") as sink:
        os.dup2(sink.fileno(), int(name))


def _leads_below(fd: str, folder: Path) -> bool:
    link = Path("/proc/self/fd") / fd
    return link.is_symlink() and str(link.readlink()).startswith(str(folder))


def test_closing_ends_the_timer_and_adding_again_begins_a_segment(tmp_path: Path) -> None:
    ledger, before = Ledger(tmp_path), threading.active_count()

    for word in ("one", "two"):
        ledger.add(asked := request(word), reply(asked))
        ledger.close()
        ledger.close()

    assert threading.active_count() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_a_ledger_tells_whose_calls_it_keeps(tmp_path: Path) -> None:
    calls = [(replace(request(), model=name), Response(f"k{name}", texts=("a",))) for name in "aba"]
    stored(tmp_path, *calls)

    assert Ledger(tmp_path).identities() == {"a", "b"}
    assert Ledger(tmp_path / "none").identities() == set()


def test_another_process_that_adds_is_told_of_while_it_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = "asked = request()\nledger.add(asked, reply(asked))\nprint(flush=True)\ninput()"
    with beside(code, tmp_path) as other:
        Ledger(tmp_path).check()
        told = [record.getMessage() for record in caplog.records]
        other.communicate(b"\n")

    caplog.clear()
    Ledger(tmp_path).check()
    assert [f"process {other.pid} is adding to it" in line for line in told] == [True]
    assert caplog.records == []


def test_a_segment_that_lay_still_for_long_is_of_no_process_that_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    segment = stored(tmp_path, (asked := request(), reply(asked)))
    name = segment.name.replace(f"-{os.getpid()}.", f"-{os.getppid()}.")
    segment.rename(tmp_path / name)
    Ledger(tmp_path).check()
    assert len(caplog.records) == 1
    caplog.clear()

    os.utime(tmp_path / name, (0, 0))
    Ledger(tmp_path).check()

    assert caplog.records == []


@pytest.mark.slow
def test_of_two_processes_that_begin_at_once_one_is_told_of_the_other(tmp_path: Path) -> None:
    # Each has looked before either has stored a call.
    code = "ledger.check()\nprint(flush=True)\ninput()\nledger.close()\n"
    both = [beside(code, tmp_path) for _ in range(2)]
    told = [process.communicate(b"\n")[1].decode() for process in both]

    pids = [process.pid for process in both]
    assert any(f"process {pid} is adding to it" in said for said in told for pid in pids)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("copies", [["0-copy.jsonl"], ["9-copy.jsonl", "a b.jsonl", "0.jsonl"]])
def test_a_segment_copied_under_other_names_counts_once(tmp_path: Path, copies: list[str]) -> None:
    asked = request()
    calls = [
        line(asked, replace(failure(asked), usage=Usage(7, 1)), time=1.5),
        line(asked, replace(reply(asked), usage=Usage(10, 5)), time=2.5),
    ]
    (tmp_path / "5-own.jsonl").write_bytes(b"".join(calls))
    once = Ledger(tmp_path).find([asked.key])
    for number, name in enumerate(copies):
        (tmp_path / name).write_bytes(b"".join(calls[: 1 + number % 2 or 2][::-1]))
    (tmp_path / "7-whole.jsonl").write_bytes(b"".join(calls).replace(b'":', b'": '))

    assert Ledger(tmp_path).find([asked.key]) == once
    assert len(once[asked.key].usage.with_superseded) == 2


def test_two_calls_at_one_moment_that_differ_count_twice(tmp_path: Path) -> None:
    asked = request()
    for name, tokens in (("1.jsonl", 3), ("2.jsonl", 4)):
        answer = replace(reply(asked), usage=Usage(10, tokens))
        (tmp_path / name).write_bytes(line(asked, answer, time=1.5))

    ledger = Ledger(tmp_path)
    found = ledger.find([asked.key])[asked.key]

    assert (found.usage.completion_tokens, ledger.twice[asked.key][0].completion_tokens) == (3, 4)


def test_an_open_ledger_finds_what_others_add_and_not_what_is_removed(tmp_path: Path) -> None:
    first, later = request("first"), request("later")
    one = stored(tmp_path, (first, reply(first)))
    ledger = Ledger(tmp_path)
    assert ledger.find([first.key, later.key]) == {first.key: reply(first)}

    other = tmp_path / "other.jsonl"
    other.write_bytes(whole := line(later, reply(later), time=1.0))
    assert ledger.find([first.key, later.key]).keys() == {first.key, later.key}
    with other.open("ab") as file:
        file.write(line(first, reply(first, "before"), time=0.5)[:-9])
    assert ledger.find([first.key])[first.key] == reply(first), "the torn line is no call"
    other.write_bytes(whole + line(first, reply(first, "before"), time=0.5))
    assert ledger.find([first.key])[first.key].texts == ("before",), "it was written whole since"

    one.unlink()
    other.write_bytes(whole)
    assert ledger.find([first.key, later.key]) == {later.key: reply(later)}


def test_of_many_calls_those_asked_for_are_found_without_decoding_others(tmp_path: Path) -> None:
    asked = [request(f"question {number}") for number in range(300)]
    lines = [line(one, reply(one, f"reply {n}"), time=n) for n, one in enumerate(asked)]
    hurt = lines[7].replace(b'"texts":["reply 7"]', b'"texts":[]')  # whole JSON, and no response
    (tmp_path / "a.jsonl").write_bytes(b"".join([*lines[:7], hurt, *lines[8:]]))
    ledger = Ledger(tmp_path)

    found = ledger.find([one.key for one in asked[10::20]])

    assert found == {
        one.key: reply(one, f"reply {10 + 20 * n}") for n, one in enumerate(asked[10::20])
    }
    with pytest.raises(StoreError, match=r"a\.jsonl:8: damaged record"):
        ledger.find([asked[7].key])


@each("absurd", [{"prompt_tokens": -9}, {"cost_usd": -9}, {"completion_tokens": int("9" * 30)}, {}])
def test_what_earlier_versions_took_is_read_as_unknown_usage_or_no_vector(
    tmp_path: Path, absurd: dict[str, int]
) -> None:
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "cost_usd": 4.0} | absurd
    for key, value in (("texts", ["Yes."]), ("vectors", [[1e200, 1e200]])):
        held = {"key": key, "time": 1.0, "response": {"key": key, key: value, "usage": usage}}
        (tmp_path / f"{key}.jsonl").write_text(json.dumps(held) + "\n")

    found = Ledger(tmp_path).find(["texts", "vectors"])
    told, useless = found["texts"].usage, found["vectors"].failure
    assert {name for name in usage if getattr(told, name) is None} == absurd.keys()
    assert useless is not None
    assert "the vector that was stored is not finite" in useless.message


REFUSALS = [
    REFUSED,
    Response("k", failure=Failure(Reason.FAILED, "gone")),
    Response("k", failure=Failure(Reason.TRUNCATED, "second"), usage=Usage(2, 3, 1.5)),
    Response("k", failure=Failure(Reason.FAILED, "gone again"), usage=Usage(0, 0, 0.0)),
]


def test_a_reply_without_an_answer_stands_before_a_call_that_got_none(tmp_path: Path) -> None:
    stored(tmp_path, *((request(), response) for response in REFUSALS))
    failure = Ledger(tmp_path).find(["k"])["k"].failure

    assert failure is not None
    assert failure.message == "second"


def test_what_was_added_is_found_before_it_is_closed(tmp_path: Path) -> None:
    ledger, asked = Ledger(tmp_path), request()
    ledger.add(asked, reply(asked))

    assert ledger.find([asked.key]) == {asked.key: reply(asked)}
    ledger.close()


def test_at_one_time_the_segment_decides_and_then_the_line(tmp_path: Path) -> None:
    asked = request()
    texts = {"b": ("b1", "b2"), "a": ("a1", "a2")}
    for name, said in texts.items():
        lines = [line(asked, reply(asked, text), time=7.0) for text in said]
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(lines))

    assert Ledger(tmp_path).find([asked.key])[asked.key].texts == ("a1",)


def test_each_repeat_of_one_prompt_is_a_record_of_its_own(tmp_path: Path) -> None:
    repeats = [request(repeat=k) for k in range(3)]
    stored(tmp_path, *((asked, reply(asked, f"{asked.repeat}")) for asked in repeats))

    found = Ledger(tmp_path).find([asked.key for asked in repeats])
    assert [found[asked.key].texts for asked in repeats] == [("0",), ("1",), ("2",)]


def test_half_a_character_of_a_failure_is_stored_and_two_halves_are_one(tmp_path: Path) -> None:
    asked, other = request(), request("other")
    served = Response(other.key, texts=("\ud83d\ude00 \ud83d",), served="m\udc80")

    stored(tmp_path, (asked, failure(asked, "\udc80")), (other, served))

    found = Ledger(tmp_path).find([asked.key, other.key])
    assert found[asked.key] == failure(asked, "\ufffd")
    assert (found[other.key].texts, found[other.key].served) == (("\U0001f600 \ufffd",), "m\ufffd")
