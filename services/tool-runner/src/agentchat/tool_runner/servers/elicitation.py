"""What a tool server asks of a person in the middle of a call: recorded, and answered with what the person
answered.

All the protocol's ways are reduced to one: the call ends with what is requested, and is made again with the
answers. From 2026-07-28 on that is the protocol's own. Up to 2025-11-25 a server asks while the call is
open: what was not asked before is cancelled, by which the server knows that nobody has chosen; or it
refuses the call until links have been opened (URL_ELICITATION_REQUIRED). Source: MCP 2025-11-25,
client/elicitation; MCP 2026-07-28, basic/patterns/mrtr.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import mcp_types
import msgspec
from mcp import MCPError
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import UrlElicitationRequiredError

from agentchat.contracts.text import cleaned
from agentchat.contracts.tool_messages import InputRequest, InputResponse
from agentchat.contracts.values import Elicitation
from agentchat.net_guard import AddressRefused
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.redaction import STRUCK
from agentchat.tool_runner.tools.input_schemas import Schema, UnfitSchema, normalized

MAX_CALL_ATTEMPTS = 8
"""A call is made again so often at most."""

MAX_REQUESTS = 8
"""A call may ask for so much at once."""

_MESSAGE_CHARS = 4000
_SCHEMA_BYTES = 16 * 1024
_LINK_CHARS = 2048
_STATE_CHARS = 64 * 1024
_KEY_CHARS = 256


class CallAttempt(msgspec.Struct, frozen=True):
    """How often a call was made before, and its results: `responses` to all that was requested."""

    number: int = 0
    responses: tuple[InputResponse, ...] = ()
    request_state: str | None = None

    @property
    def newest(self) -> mcp_types.InputResponses | None:
        """The responses that the server waits for; None where it waits for none."""
        asked = [each for each in self.responses if each.leg == self.number - 1]
        return {each.key: _result(each) for each in asked} or None


FIRST_CALL_ATTEMPT = CallAttempt()


class InputRequired(msgspec.Struct, frozen=True):
    """How a call ended that is to be made again."""

    requests: tuple[InputRequest, ...]
    request_state: str | None = None


class ElicitationReader:
    """Make a server's elicitations fit to be shown. `check_link` raises AddressRefused, ValueError."""

    def __init__(self, check_link: Callable[[str], None]) -> None:
        self._check_link = check_link

    def required(self, result: mcp_types.InputRequiredResult) -> InputRequired:
        """What a result asks for. Raises ToolFailed."""
        asked = result.input_requests or {}
        requests = tuple(
            InputRequest(key=key, elicitation=self.read(_elicitation(request)))
            for key, request in asked.items()
        )
        state = result.request_state
        if len(state or "") > _STATE_CHARS or any(len(key) > _KEY_CHARS for key in asked):
            raise ToolFailed("input", "its state or a key is too long")
        # Both are sent back as they are, and are stored until then: no event holds a NUL.
        if any(cleaned(text) != text for text in (state or "", *asked)):
            raise ToolFailed("input", "its state or a key is no text")
        if any(STRUCK in text for text in (state or "", *asked)):
            raise ToolFailed("input", "its state or a key holds a credential")
        return InputRequired(_few(requests), state)

    def linked(self, error: MCPError) -> InputRequired:
        """The links that a call was refused for. Raises ToolFailed, ValueError."""
        links = UrlElicitationRequiredError.from_error(error.error).elicitations
        return InputRequired(_few(_numbered([self.read(each) for each in links])))

    def read(self, params: mcp_types.ElicitRequestParams) -> Elicitation:
        """Raises ToolFailed for what cannot be shown to a person."""
        message = cleaned(params.message)[:_MESSAGE_CHARS]
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            return Elicitation(message=message, mode="url", url=self._link(params.url))
        return Elicitation(message=message, requested_schema=_schema(params.requested_schema))

    def _link(self, url: str) -> str:
        """As it is. One that a reader could take for another, or that holds a credential, is none."""
        if len(url) > _LINK_CHARS or not (url.isascii() and url.isprintable()) or " " in url:
            raise ToolFailed("input", "its link is too long or no URL")
        if STRUCK in url:
            raise ToolFailed("input", "its link holds a credential")
        try:
            self._check_link(url)
        except (AddressRefused, ValueError) as error:
            raise ToolFailed("input", f"its link is refused: {error}") from error
        return url


class Asking:
    """One call to a server that asks while it is open, or that refuses it for links."""

    def __init__(self, reader: ElicitationReader, attempt: CallAttempt) -> None:
        self._reader = reader
        self._responses = attempt.responses
        self._left = list(attempt.responses)
        self._asked: list[Elicitation] = []
        self._unfit: ToolFailed | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """What a server asks on this block's requests is asked in this call."""
        token = _open.set(self)
        try:
            yield
        finally:
            _open.reset(token)

    @property
    def required(self) -> InputRequired | None:
        """What was requested and has no response yet. Raises ToolFailed where some of it cannot be shown."""
        if self._unfit is not None:
            raise self._unfit
        return InputRequired(_few(_numbered(self._asked))) if self._asked else None

    def refused(self, error: MCPError) -> InputRequired:
        """What a refusal asks for. Raises `error` where it asks for nothing, or a person has refused it.

        A refusal takes no answer: who makes the call again would be asked the same for ever.
        """
        if any(each.elicitation.mode == "url" and each.action != "accept" for each in self._responses):
            raise error
        return self._reader.linked(error)

    def answer(self, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """The response to exactly that; each once, as a server that asks twice may mean another thing."""
        try:
            elicitation = self._reader.read(params)
        except ToolFailed as failed:
            self._unfit = failed
            return mcp_types.ElicitResult(action="cancel")
        for place, response in enumerate(self._left):
            if response.elicitation == elicitation:
                del self._left[place]
                return _result(response)
        if elicitation not in self._asked:
            self._asked.append(elicitation)
        if len(self._asked) > MAX_REQUESTS:
            return mcp_types.ErrorData(
                code=mcp_types.INVALID_REQUEST, message="Too much is asked for in one call"
            )
        return mcp_types.ElicitResult(action="cancel")


# The client handles what comes on a request's stream in the context of the task that has sent that request.
_open: ContextVar[Asking | None] = ContextVar("asking", default=None)


async def on_elicitation(
    context: ClientRequestContext,  # noqa: ARG001 - the callback's form
    params: mcp_types.ElicitRequestParams,
) -> mcp_types.ElicitResult | mcp_types.ErrorData:
    """The MCP client's callback, for servers that ask while a call is open."""
    asking = _open.get()
    if asking is None:
        return mcp_types.ErrorData(
            code=mcp_types.INVALID_REQUEST, message="No call is open in which this could be asked"
        )
    return asking.answer(params)


def _elicitation(request: Any) -> mcp_types.ElicitRequestParams:
    if not isinstance(request, mcp_types.ElicitRequest):
        raise ToolFailed("input", f"it asks for {request.method}")
    return request.params


def _result(response: InputResponse) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action=response.action, content=response.content)


def _numbered(asked: Sequence[Elicitation]) -> tuple[InputRequest, ...]:
    return tuple(
        InputRequest(key=str(number), elicitation=each) for number, each in enumerate(asked, start=1)
    )


def _few(requests: tuple[InputRequest, ...]) -> tuple[InputRequest, ...]:
    if len(requests) > MAX_REQUESTS:
        raise ToolFailed("input", f"it asks for {len(requests)} things at once")
    return requests


def _schema(given: Schema) -> Schema:
    try:
        schema = normalized(given)
    except UnfitSchema as unfit:
        raise ToolFailed("input", str(unfit)) from unfit
    if len(msgspec.json.encode(schema)) > _SCHEMA_BYTES:
        raise ToolFailed("input", "its schema is larger than 16 KiB")
    return schema
