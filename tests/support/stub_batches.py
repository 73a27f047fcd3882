"""Files and batches of a stub server, in the shapes of OpenAI and of Anthropic, in memory.

Results come backwards: a client must go by their ids. Nothing here opens a connection.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from support.stub_script import Reply, as_json

Made = Callable[[str, dict[str, Any]], Reply]
End = Literal["completed", "expired", "failed", "cancelled"]
ANTHROPIC_STATES = {"validating": "in_progress", "in_progress": "in_progress"}


@dataclass
class Batch:
    """One batch: what was asked for under which id, and how often it was looked at."""

    id: str
    endpoint: str
    asked: dict[str, dict[str, Any]]
    metadata: dict[str, str]
    created: float
    looks: int = 0


@dataclass
class Batches:
    """All batches of a server, and how they fare.

    A batch ends at the look after `polls` others, as `end` says, or `ends` for its id: an expired
    one has answered every other request. `noise` adds two damaged lines and one of an unknown id.
    `faults` are, by "METHOD path", a status or "lost" (done, but the reply is cut) for each next
    call.
    """

    polls: int = 0
    end: End = "completed"
    ends: dict[str, End] = field(default_factory=dict)
    noise: bool = False
    is_archived: bool = False
    faults: dict[str, list[str]] = field(default_factory=dict)
    page: int = 100
    made: dict[str, Batch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def submitted(self) -> list[list[str]]:
        """The ids in each batch, in the order in which the batches were made."""
        return [list(batch.asked) for batch in self.made.values()]

    def reply(self, what: str, content: bytes, made: Made) -> Reply | None:
        """The reply to a call that is about files or batches; null for any other."""
        method, _, target = what.partition(" ")
        path = urlsplit(target).path
        if not re.match(r"/v1/(files|batches|messages/batches)\b", path):
            return None
        self.log.append(f"{method} {path}")
        fault = next(iter(self.faults.get(f"{method} {path}", [])), "")
        if fault:
            self.faults[f"{method} {path}"].pop(0)
        if fault.isdigit():
            return as_json(int(fault), {"error": {"message": f"scripted fault {fault}"}})
        if fault == "html":
            return Reply(200, b"<html>busy</html>", {"Content-Type": "text/html"})
        query = parse_qs(urlsplit(target).query)
        reply = self._done(f"{method} {path}", content, query, made=made)
        return replace(reply, cut=True) if fault == "lost" else reply

    def _done(self, what: str, content: bytes, query: dict[str, list[str]], *, made: Made) -> Reply:
        after = next(iter(query.get("after", query.get("after_id", []))), "")
        match what.removeprefix("GET /v1/").removeprefix("POST /v1/").split("/"):
            case ["files"]:
                return self._uploaded(content)
            case ["files", name, "content"] if name in self.files:
                return Reply(200, self.files[name], {"Content-Type": "application/octet-stream"})
            case ["batches"] if what.startswith("POST"):
                return self._openai(self._begun_openai(json.loads(content)), made)
            case ["batches"]:
                return self._listed([self._openai_state(b) for b in self._page(after)])
            case ["batches", name] if name in self.made:
                return self._openai(self._looked_at(name), made)
            case ["messages", "batches"] if what.startswith("POST"):
                return as_json(200, self._anthropic(self._begun_anthropic(json.loads(content))))
            case ["messages", "batches"]:
                return self._listed([self._anthropic(b) for b in self._page(after)])
            case ["messages", "batches", name] if name in self.made:
                return as_json(200, self._anthropic(self._looked_at(name)))
            case ["messages", "batches", name, "results"] if name in self.made:
                return self._lines(self._anthropic_lines(self.made[name], made))
            case _:
                return as_json(404, {"error": {"message": f"no such thing: {what}"}})

    def _uploaded(self, content: bytes) -> Reply:
        boundary = content.split(b"\r\n", 1)[0]
        parts = [part.split(b"\r\n\r\n", 1) for part in content.split(boundary)[1:-1]]
        fields = {head.split(b'name="')[1].split(b'"')[0]: body[:-2] for head, body in parts}
        assert fields[b"purpose"] == b"batch"
        name = f"file-{len(self.files) + 1}"
        self.files[name] = fields[b"file"]
        return as_json(200, {"id": name, "object": "file", "purpose": "batch"})

    def _begun_openai(self, asked: dict[str, Any]) -> Batch:
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        assert {(line["method"], line["url"]) for line in lines} == {("POST", asked["endpoint"])}
        return self._begun(
            asked["endpoint"],
            {line["custom_id"]: line["body"] for line in lines},
            asked.get("metadata") or {},
        )

    def _begun_anthropic(self, asked: dict[str, Any]) -> Batch:
        lines = {part["custom_id"]: part["params"] for part in asked["requests"]}
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in lines)
        return self._begun("/v1/messages", lines, {})

    def _begun(
        self, endpoint: str, asked: dict[str, dict[str, Any]], metadata: dict[str, str]
    ) -> Batch:
        name = f"batch_{len(self.made) + 1}"
        self.made[name] = Batch(name, endpoint, asked, metadata, time.time())
        return self.made[name]

    def _looked_at(self, name: str) -> Batch:
        self.made[name].looks += 1
        return self.made[name]

    def _state(self, batch: Batch) -> str:
        if batch.looks == 0:
            return "validating"
        return "in_progress" if batch.looks <= self.polls else self._end(batch)

    def _end(self, batch: Batch) -> str:
        return self.ends.get(batch.id, self.end)

    def _page(self, after: str) -> list[Batch]:
        newest = list(self.made.values())[::-1]
        start = [batch.id for batch in newest].index(after) + 1 if after else 0
        return newest[start : start + self.page]

    def _listed(self, entries: list[dict[str, Any]]) -> Reply:
        has_more = bool(entries) and entries[-1]["id"] != next(iter(self.made))
        ids = {"first_id": entries[0]["id"], "last_id": entries[-1]["id"]} if entries else {}
        return as_json(200, {"object": "list", "data": entries, "has_more": has_more, **ids})

    def _answered(self, batch: Batch) -> list[str]:
        """The ids that are answered, the last first."""
        ids = list(batch.asked)[::-1]
        return ids[::2] if self._end(batch) in ("expired", "cancelled") else ids

    def _openai_state(self, batch: Batch) -> dict[str, Any]:
        state = self._state(batch)
        counts = {"total": len(batch.asked), "completed": min(batch.looks, len(batch.asked))}
        told: dict[str, Any] = {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "status": state,
        }
        told |= {"created_at": int(batch.created), "metadata": batch.metadata}
        told |= {"request_counts": {**counts, "failed": 0}}
        return told

    def _openai(self, batch: Batch, made: Made) -> Reply:
        told = self._openai_state(batch)
        if told["status"] == "failed":
            told |= {"errors": {"data": [{"code": "token_limit_exceeded", "message": "Too much."}]}}
        elif told["status"] == self._end(batch):
            good, bad = self._openai_lines(batch, made)
            for kind, lines in (("output", good), ("error", bad)):
                if lines:
                    self.files[f"{kind}-{batch.id}"] = self._lines(lines).body
                    told[f"{kind}_file_id"] = f"{kind}-{batch.id}"
        return as_json(200, told)

    def _openai_lines(self, batch: Batch, made: Made) -> tuple[list[object], list[object]]:
        good: list[object] = []
        bad: list[object] = []
        for name in self._answered(batch):
            reply = made(batch.endpoint, batch.asked[name])
            response = {"status_code": reply.status, "body": json.loads(reply.body)}
            line = {"id": "r", "custom_id": name, "response": response, "error": None}
            (good if reply.status == 200 else bad).append(line)
        why = {"code": "batch_over", "message": f"This batch has {self._end(batch)}."}
        for name in set(batch.asked) - set(self._answered(batch)):
            bad.append({"id": "r", "custom_id": name, "response": None, "error": why})
        return good, bad

    def _anthropic(self, batch: Batch) -> dict[str, Any]:
        state = self._state(batch)
        created = datetime.fromtimestamp(batch.created, UTC)
        status = ANTHROPIC_STATES.get(state, "ended")
        done = len(batch.asked) if status == "ended" else 0
        counts = {"processing": len(batch.asked) - done, "succeeded": done}
        told: dict[str, Any] = {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": status,
        }
        told |= {"created_at": created.isoformat(), "ended_at": None}
        told |= {"archived_at": created.isoformat() if self.is_archived else None}
        told |= {"expires_at": (created + timedelta(days=1)).isoformat()}
        told |= {"request_counts": {**counts, "errored": 0, "canceled": 0, "expired": 0}}
        url = f"/v1/messages/batches/{batch.id}/results" if status == "ended" else None
        return told | {"results_url": url}

    def _anthropic_lines(self, batch: Batch, made: Made) -> list[object]:
        lines: list[object] = []
        for name in self._answered(batch):
            reply = made(batch.endpoint, batch.asked[name])
            is_good, body = reply.status == 200, json.loads(reply.body)
            result = {"type": "succeeded", "message": body}
            failed = {"type": "errored", "error": body}
            lines.append({"custom_id": name, "result": result if is_good else failed})
        why = "canceled" if self._end(batch) == "cancelled" else "expired"
        for name in set(batch.asked) - set(self._answered(batch)):
            lines.append({"custom_id": name, "result": {"type": why}})
        return lines

    def _lines(self, lines: list[object]) -> Reply:
        body = [json.dumps(line).encode() for line in lines]
        if self.noise:
            stranger = {"custom_id": "nobody", "response": None, "result": {"type": "expired"}}
            damaged = [b'{"custom_id": "half a li', b'{"custom_id": 3}']
            body[1:1] = [*damaged, json.dumps(stranger).encode()]
        return Reply(200, b"\n".join(body) + b"\n", {"Content-Type": "application/x-jsonl"})
