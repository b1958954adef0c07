"""Handle the questions that a tool server asks a person during a call (elicitation).

Every protocol version is reduced to one form: the call ends with the questions, and is repeated with the
answers. From 2026-07-28 on the protocol itself works like this. Up to 2025-11-25 a server asks while the call
is open: a new question is answered with `cancel`, which tells the server that nobody has chosen yet. Or the
server refuses the call until links have been opened (URL_ELICITATION_REQUIRED).
Source: MCP 2025-11-25, client/elicitation; MCP 2026-07-28, basic/patterns/mrtr.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import mcp_types
import msgspec
from mcp import MCPError
from mcp.client import ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import UrlElicitationRequiredError

from agentchat.contracts.text_checks import clean_text
from agentchat.contracts.tool_messages import InputRequest, InputResponse
from agentchat.contracts.values import Elicitation
from agentchat.net_guard import AddressRefused
from agentchat.tool_runner.credential_redaction import STRUCK
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.tools.input_schemas import Schema, UnfitSchema, normalize_schema

MAX_CALL_ATTEMPTS = 8
"""The most times that a call is repeated."""

MAX_REQUESTS = 8
"""The most questions of a call at once."""

_MESSAGE_CHARS = 4000
_SCHEMA_BYTES = 16 * 1024
_LINK_CHARS = 2048
_STATE_CHARS = 64 * 1024
_KEY_CHARS = 256


class CallAttempt(msgspec.Struct, frozen=True):
    """One of a call's attempts.

    How often it was made before, and the responses to all questions so far. `meta` is the request's `_meta`,
    `on_progress` is called with what the server reports while the tool runs.
    """

    number: int = 0
    responses: tuple[InputResponse, ...] = ()
    request_state: str | None = None
    meta: dict[str, Any] = {}
    on_progress: ProgressFnT | None = None

    @property
    def newest(self) -> mcp_types.InputResponses | None:
        """Return the responses to the last attempt's questions; None without any."""
        asked = [each for each in self.responses if each.leg == self.number - 1]
        return {each.key: _build_result(each) for each in asked} or None


FIRST_CALL_ATTEMPT = CallAttempt()


class InputRequired(msgspec.Struct, frozen=True):
    """The end of a call that must be repeated with responses to these requests."""

    requests: tuple[InputRequest, ...]
    request_state: str | None = None


class ElicitationReader:
    """A reader that checks and limits a server's questions.

    `check_link` raises AddressRefused, ValueError.
    """

    def __init__(self, check_link: Callable[[str], None]) -> None:
        self._check_link = check_link

    def read_required(self, result: mcp_types.InputRequiredResult) -> InputRequired:
        """Return the questions in a result. Raises ToolFailed."""
        asked = result.input_requests or {}
        requests = tuple(
            InputRequest(key=key, elicitation=self.read(_get_elicitation(request)))
            for key, request in asked.items()
        )
        state = result.request_state
        if len(state or "") > _STATE_CHARS or any(len(key) > _KEY_CHARS for key in asked):
            raise ToolFailed("input", "its state or a key is too long")
        # Both are stored and sent back unchanged, and no event can hold a NUL.
        if any(clean_text(text) != text for text in (state or "", *asked)):
            raise ToolFailed("input", "its state or a key is no text")
        if any(STRUCK in text for text in (state or "", *asked)):
            raise ToolFailed("input", "its state or a key holds a credential")
        return InputRequired(_check_request_count(requests), state)

    def read_links(self, error: MCPError) -> InputRequired:
        """Return the links that a refused call needs to be opened. Raises ToolFailed, ValueError."""
        links = UrlElicitationRequiredError.from_error(error.error).elicitations
        return InputRequired(_check_request_count(_number_requests([self.read(each) for each in links])))

    def read(self, params: mcp_types.ElicitRequestParams) -> Elicitation:
        """Return the question as it can be shown to a person. Raises ToolFailed if it cannot."""
        message = clean_text(params.message)[:_MESSAGE_CHARS]
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            return Elicitation(message=message, mode="url", url=self._link(params.url))
        return Elicitation(message=message, requested_schema=_check_schema(params.requested_schema))

    def _link(self, url: str) -> str:
        """Return the link unchanged.

        Raises ToolFailed for a link that could be mistaken for another, or holds a credential.
        """
        if len(url) > _LINK_CHARS or not (url.isascii() and url.isprintable()) or " " in url:
            raise ToolFailed("input", "its link is too long or no URL")
        if STRUCK in url:
            raise ToolFailed("input", "its link holds a credential")
        try:
            self._check_link(url)
        except (AddressRefused, ValueError) as error:
            raise ToolFailed("input", f"its link is refused: {error}") from error
        return url


class ElicitationRound:
    """One call to a server that asks during the call, or refuses it until links are opened."""

    def __init__(self, reader: ElicitationReader, attempt: CallAttempt) -> None:
        self._reader = reader
        self._responses = attempt.responses
        self._left = list(attempt.responses)
        self._asked: list[Elicitation] = []
        self._unfit: ToolFailed | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Attribute the questions that arrive on this block's requests to this call."""
        token = _open.set(self)
        try:
            yield
        finally:
            _open.reset(token)

    @property
    def required(self) -> InputRequired | None:
        """Return the questions without a response.

        Raises ToolFailed if one of them cannot be shown.
        """
        if self._unfit is not None:
            raise self._unfit
        return InputRequired(_check_request_count(_number_requests(self._asked))) if self._asked else None

    def read_refusal(self, error: MCPError) -> InputRequired:
        """Return the links that a refusal asks for.

        Raises `error` if it asks for none, or a person declined one: a refusal takes no answer, so another
        attempt would ask the same again.
        """
        if any(each.elicitation.mode == "url" and each.action != "accept" for each in self._responses):
            raise error
        return self._reader.read_links(error)

    def answer(self, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answer a question with the recorded response to it, or with `cancel`.

        Each response is used once, because a server that asks the same again may mean something else.
        """
        try:
            elicitation = self._reader.read(params)
        except ToolFailed as failed:
            self._unfit = failed
            return mcp_types.ElicitResult(action="cancel")
        for index, response in enumerate(self._left):
            if response.elicitation == elicitation:
                del self._left[index]
                return _build_result(response)
        if elicitation not in self._asked:
            self._asked.append(elicitation)
        if len(self._asked) > MAX_REQUESTS:
            return mcp_types.ErrorData(
                code=mcp_types.INVALID_REQUEST, message="Too many questions in one call"
            )
        return mcp_types.ElicitResult(action="cancel")


# The client handles messages on a request's stream in the context of the task that sent the request.
_open: ContextVar[ElicitationRound | None] = ContextVar("asking", default=None)


async def on_elicitation(
    context: ClientRequestContext,  # noqa: ARG001 - the callback's form
    params: mcp_types.ElicitRequestParams,
) -> mcp_types.ElicitResult | mcp_types.ErrorData:
    """Answer a server that asks while a call is open (callback of the MCP client)."""
    asking = _open.get()
    if asking is None:
        return mcp_types.ErrorData(
            code=mcp_types.INVALID_REQUEST, message="No call is open that could ask this"
        )
    return asking.answer(params)


def _get_elicitation(request: Any) -> mcp_types.ElicitRequestParams:
    if not isinstance(request, mcp_types.ElicitRequest):
        raise ToolFailed("input", f"it asks for {request.method}")
    return request.params


def _build_result(response: InputResponse) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action=response.action, content=response.content)


def _number_requests(asked: Sequence[Elicitation]) -> tuple[InputRequest, ...]:
    return tuple(
        InputRequest(key=str(number), elicitation=each) for number, each in enumerate(asked, start=1)
    )


def _check_request_count(requests: tuple[InputRequest, ...]) -> tuple[InputRequest, ...]:
    if len(requests) > MAX_REQUESTS:
        raise ToolFailed("input", f"it asks for {len(requests)} things at once")
    return requests


def _check_schema(given: Schema) -> Schema:
    try:
        schema = normalize_schema(given)
    except UnfitSchema as unfit:
        raise ToolFailed("input", str(unfit)) from unfit
    if len(msgspec.json.encode(schema)) > _SCHEMA_BYTES:
        raise ToolFailed("input", "its schema is larger than 16 KiB")
    return schema
