"""Texts to one of two labels, by a chat model that says `safe`, or `unsafe` and what is.

The text is the user's turn, and the server's chat template puts the guard's instructions around
it. A reply of another form is missing: it is never taken for safe.
"""

from dataclasses import replace

from harness.core import Request, Response
from harness.models.client.http import Connection
from harness.models.client.replies import no_answer
from harness.models.labels import FLAGGED, chosen
from harness.models.openai.bodies import read_reply
from harness.models.openai.model import ModerationModel
from harness.parts import Reason
from harness.specs.models import GuardSpec
from harness.text.parsers import SafetyVerdict, safety_verdict


class GuardModel(ModerationModel):
    """A guard model behind an OpenAI-compatible server."""

    kind = "guard"
    spec: GuardSpec

    def _identity_parts(self) -> list[str]:
        spec = self.spec
        hazards, counted = ",".join(spec.hazards), ",".join(spec.counted)
        parts = [*super()._identity_parts(), f"hazards={hazards}", f"max_tokens={spec.max_tokens}"]
        return parts + ([f"counted={counted}"] if counted else [])

    async def _ask(self, connection: Connection, request: Request) -> Response:
        asked = {"role": "user", "content": self._questions.question(request).text}
        limits = {"temperature": 0, "max_tokens": self.spec.max_tokens}
        body = {"model": self.spec.model, "messages": [asked], **limits}
        with self.translating():
            content = await connection.request("POST", "/chat/completions", body)
        reply = read_reply(content, request, self.server)
        return self._read_label(request, reply) if reply.texts else reply

    def _read_label(self, request: Request, reply: Response) -> Response:
        """The reply as a label; UNPARSED where it is of another form or names an unknown hazard."""
        said = (reply.texts or ("",))[0]
        found = safety_verdict(said)
        if isinstance(found, Reason) or not self._is_clear(found):
            note = f"neither safe nor unsafe with known hazards: {self.server.quote(said)}"
            return no_answer(request, Reason.UNPARSED, note, usage=reply.usage, served=reply.served)
        counted = self.spec.counted or self.spec.hazards
        is_flagged = bool({*counted} & {*found.hazards}) or not (found.is_safe or self.spec.counted)
        flags = {FLAGGED.format(n): float(n in found.hazards) for n in self.spec.hazards}
        label = self.spec.positive if is_flagged else self._negative
        response = chosen(self._questions.question(request), label, flags)
        return replace(response, usage=reply.usage, served=reply.served)

    def _is_clear(self, found: SafetyVerdict) -> bool:
        """Whether it names known hazards alone, and where single ones count, names them."""
        has_codes = bool(found.hazards) or found.is_safe or not self.spec.counted
        return has_codes and {*found.hazards} <= {*self.spec.hazards}
