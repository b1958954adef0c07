"""Every request of the API as data, and the settings that all of them share. No I/O."""

import os
import uuid
from collections.abc import Callable, Generator, Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any, Literal
from urllib.parse import quote

import httpx
import msgspec

from agentchat_client.errors import Misconfigured
from agentchat_client.retries import Budget, Timeouts

Form = Literal[1, 2]

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
"""Any number of open streams."""

LOST = (httpx.RequestError, TimeoutError)
"""What sending a request or reading an answer raises when no whole answer comes."""

_LONGEST_KEY = 255
_USER_AGENT = f"agentchat-client/{version('agentchat-client')}"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request but for its address and its key. Attempts at it share it, and so its Idempotency-Key.

    `silent`: the service says nothing until the whole answer is there.
    """

    method: Literal["GET", "PATCH", "POST"]
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    silent: bool = False


class ApiKey(httpx.Auth):
    """Puts the key on each request. Nothing else holds it, and it does not show itself."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["X-Api-Key"] = self._key
        yield request

    def __repr__(self) -> str:
        return "ApiKey(…)"


class Service:
    """Where the service is, who asks which agent, and with how much patience."""

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None,
        agent_id: str | None,
        *,
        max_retries: int,
        timeouts: Timeouts | None,
        clock: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """What is None is taken from the environment. Raises Misconfigured."""
        self.key = ApiKey(_header("api_key", _needed("api_key", api_key, environ)))
        self.base_url = _address(_needed("base_url", base_url, environ))
        self.agent_id = _header("agent_id", _given("agent_id", agent_id, environ))
        self._max_retries = max_retries
        self._timeouts = timeouts or Timeouts()
        self._clock = clock

    def __str__(self) -> str:
        return f"base_url={self.base_url!r}, agent_id={self.agent_id!r}"

    def budget(self) -> Budget:
        """The time and the retries of a call that begins now."""
        return Budget(self._max_retries, self._timeouts.total, self._clock)

    def chat(
        self,
        message: str,
        conversation_id: str | None,
        prompt: str | None,
        agent_id: str | None,
        key: str | None,
    ) -> Call:
        """POST /v1/chat. `key`: the Idempotency-Key; None for one of its own."""
        headers, body = self._asking(message, conversation_id, prompt, agent_id, key)
        return Call(method="POST", path="/v1/chat", headers=headers, body=body, silent=True)

    def stream(
        self,
        message: str,
        conversation_id: str | None,
        prompt: str | None,
        agent_id: str | None,
        key: str | None,
        form: Form | None,
    ) -> Call:
        """POST /v1/chat/stream."""
        headers, body = self._asking(message, conversation_id, prompt, agent_id, key)
        headers["Accept-Encoding"] = "identity"  # a proxy that compresses also holds events back
        if form is not None:
            headers["X-Stream-Form"] = str(form)
        return Call(method="POST", path="/v1/chat/stream", headers=headers, body=body)

    def request(self, http: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
        """One attempt at `call`, still without the key."""
        timeouts = self._timeouts
        read = timeouts.total if call.silent else timeouts.read
        timeout = httpx.Timeout(read, connect=timeouts.connect, pool=timeouts.connect, write=timeouts.read)
        return http.build_request(
            call.method,
            self.base_url + call.path,
            params=call.query or None,
            headers={"User-Agent": _USER_AGENT, **call.headers},
            content=call.body,
            timeout=timeout,
        )

    def _asking(
        self,
        message: str,
        conversation_id: str | None,
        prompt: str | None,
        agent_id: str | None,
        key: str | None,
    ) -> tuple[dict[str, str], bytes]:
        agent = _header("agent_id", _needed("agent_id", agent_id or self.agent_id, {}))
        given = {"message": message, "conversation_id": conversation_id, "prompt": prompt}
        headers = {
            "X-Agent-Id": agent,
            "Content-Type": "application/json",
            "Idempotency-Key": str(uuid.uuid4()) if key is None else _key(key),
        }
        return headers, msgspec.json.encode(
            {name: value for name, value in given.items() if value is not None}
        )


def conversation(conversation_id: str) -> Call:
    """GET /v1/conversations/{conversation_id}."""
    return Call(method="GET", path=f"/v1/conversations/{_segment(conversation_id)}")


def describe(
    conversation_id: str,
    title: str | msgspec.UnsetType | None,
    metadata: Mapping[str, str | None] | msgspec.UnsetType | None,
) -> Call:
    """PATCH /v1/conversations/{conversation_id}."""
    given = {"title": title, "metadata": metadata}
    return Call(
        method="PATCH",
        path=f"/v1/conversations/{_segment(conversation_id)}",
        headers={"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())},
        body=msgspec.json.encode(
            {name: value for name, value in given.items() if value is not msgspec.UNSET}
        ),
    )


def fork(conversation_id: str, at: str | int | None) -> Call:
    """POST /v1/conversations/{conversation_id}/fork."""
    return Call(
        method="POST",
        path=f"/v1/conversations/{_segment(conversation_id)}/fork",
        headers={"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())},
        body=msgspec.json.encode({} if at is None else {"at": str(at)}),
    )


def filters(
    metadata: Mapping[str, str] | None,
    agent_id: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
    title: str | None,
) -> dict[str, str]:
    """The query that finds the threads which match all of these. Raises Misconfigured."""
    given = {
        **{f"metadata.{key}": value for key, value in (metadata or {}).items()},
        "agent_id": agent_id,
        "created_after": _time("created_after", created_after),
        "created_before": _time("created_before", created_before),
        "title": title,
    }
    return {name: value for name, value in given.items() if value is not None}


def _time(name: str, time: datetime | None) -> str | None:
    """Raises Misconfigured."""
    if time is not None and time.tzinfo is None:
        raise Misconfigured(f"{name} has no time zone.")
    return None if time is None else time.isoformat()


def cancel(trace_id: str) -> Call:
    """POST /v1/chat/{trace_id}/cancel."""
    return Call(method="POST", path=f"/v1/chat/{_segment(trace_id)}/cancel")


def decide(
    approval_id: str,
    decision: Literal["approved", "denied"],
    given: dict[str, Any] | None,
    reason: str | None,
) -> Call:
    """POST /v1/approvals/{approval_id}/decision."""
    body: dict[str, Any] = {"decision": decision, "input": given, "reason": reason}
    return Call(
        method="POST",
        path=f"/v1/approvals/{_segment(approval_id)}/decision",
        headers={"Content-Type": "application/json"},
        body=msgspec.json.encode({name: value for name, value in body.items() if value is not None}),
    )


def events(trace_id: str, last_event_id: str | None, form: Form | None) -> Call:
    """GET /v1/chat/{trace_id}/events. Raises Misconfigured."""
    headers = {"Accept-Encoding": "identity"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = _header("last_event_id", last_event_id)
    if form is not None:
        headers["X-Stream-Form"] = str(form)
    return Call(method="GET", path=f"/v1/chat/{_segment(trace_id)}/events", headers=headers)


def reason(lost: Exception) -> str:
    """Why no answer came, in words; some of httpx's errors have none."""
    return f"{type(lost).__name__}: {lost}" if str(lost) else type(lost).__name__


def messages_path(conversation_id: str) -> str:
    return f"/v1/conversations/{_segment(conversation_id)}/messages"


def _segment(text: str) -> str:
    return quote(text, safe="")


def _header(name: str, text: str) -> str:
    """`text` fit for a header; white space around it is a slip of copying. Raises Misconfigured."""
    text = text.strip()
    if not all("!" <= character <= "~" for character in text):
        # Said without the value: it may be a key.
        raise Misconfigured(f"{name} holds a character that cannot be in it.")
    return text


def _key(text: str) -> str:
    """Raises Misconfigured."""
    text = _header("idempotency_key", text)
    if not 1 <= len(text) <= _LONGEST_KEY or text.startswith('"'):
        raise Misconfigured(f"idempotency_key is 1 to {_LONGEST_KEY} characters, and is not quoted.")
    return text


def _given(name: str, value: str | None, environ: Mapping[str, str]) -> str:
    """The argument, else the variable, else an empty text."""
    return (environ.get(_variable(name), "") if value is None else value).strip()


def _needed(name: str, value: str | None, environ: Mapping[str, str]) -> str:
    text = _given(name, value, environ)
    if not text:
        raise Misconfigured(f"No {name}: give it as an argument, or set {_variable(name)}.")
    return text


def _variable(name: str) -> str:
    return f"AGENTCHAT_{name.upper()}"


def _address(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise Misconfigured(f"base_url is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment or url.userinfo:
        raise Misconfigured("base_url must be http:// or https://, a host, and at most a path.")
    return text.rstrip("/")
