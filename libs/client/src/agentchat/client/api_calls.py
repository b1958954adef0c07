"""Build every request of the API as data, and hold the settings that all requests share. No I/O."""

import os
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec.structs import replace

from agentchat.client.blocking import BlockingHttp
from agentchat.client.errors import Misconfigured
from agentchat.client.models import File
from agentchat.client.retries import Budget, Timeouts

Form = Literal[1, 2, "full"]
OnBusy = Literal["queue", "refuse", "interrupt", "steer"]
T = TypeVar("T")

WEBHOOKS = "/v1/webhook_endpoints"

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
"""Any number of open streams."""

LOST = (httpx.RequestError, TimeoutError)
"""The exceptions of sending a request or reading a response whose response is not complete."""

_LONGEST_KEY = 255
_USER_AGENT = f"agentchat-client/{version('agentchat-client')}"


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request without the base address and the key. All attempts share it, and so its Idempotency-Key.

    file: The name and the content of a file, which are sent as a form instead of a body.
    silent: The service sends nothing until the response is complete.
    repeatable: Sending it twice does no harm. A call that is not is retried only if it was rate-limited.
    """

    method: Literal["DELETE", "GET", "PATCH", "POST"]
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    file: tuple[str, bytes] | None = None
    silent: bool = False
    repeatable: bool = True


class ApiKey(httpx.Auth):
    """Puts the key on each request, and the user. Nothing else holds the key, and no repr shows it."""

    def __init__(self, key: str, user_id: str | None = None) -> None:
        self._key = key
        self._user_id = user_id

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the key to the request."""
        request.headers["X-Api-Key"] = self._key
        if self._user_id is not None:
            request.headers["X-User-Id"] = self._user_id
        yield request

    def __repr__(self) -> str:
        return "ApiKey(…)"


class ClientSettings:
    """The settings that all requests share: address, key, agent, retries and time-outs."""

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None,
        agent_id: str | None,
        *,
        user_id: str | None = None,
        max_retries: int,
        timeouts: Timeouts | None,
        clock: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Read arguments that are None from the environment. Raises Misconfigured."""
        key = _check_header("api_key", _require_setting("api_key", api_key, environ))
        self.key = ApiKey(key, None if user_id is None else _check_header("user_id", user_id))
        self.base_url = _check_address(_require_setting("base_url", base_url, environ))
        self.agent_id = _check_header("agent_id", _read_setting("agent_id", agent_id, environ))
        self._max_retries = max_retries
        self._timeouts = timeouts or Timeouts()
        self._clock = clock

    def __str__(self) -> str:
        return f"base_url={self.base_url!r}, agent_id={self.agent_id!r}"

    def start_budget(self) -> Budget:
        """Start the time and the retries of a call."""
        return Budget(self._max_retries, self._timeouts.total, self._clock)

    def build_chat_call(
        self,
        message: str,
        conversation_id: str | None,
        prompt: str | None,
        agent_id: str | None,
        key: str | None,
        more: Mapping[str, Any] | None = None,
        attachments: Sequence[File | str] = (),
        on_busy: OnBusy | None = None,
    ) -> ApiCall:
        """Build POST /v1/chat. `key` is the Idempotency-Key; None generates one. `more` joins the body."""
        agent = _check_header("agent_id", _require_setting("agent_id", agent_id or self.agent_id, {}))
        given = {"message": message, "conversation_id": conversation_id, "prompt": prompt, "on_busy": on_busy}
        body = omit_none(given | dict(more or {}))
        if attachments:
            body["attachments"] = [
                {"url": each} if isinstance(each, str) else {"file_id": each.file_id} for each in attachments
            ]
        call = build_json_call("POST", "/v1/chat", body, key=make_key() if key is None else _check_key(key))
        return replace(call, headers=call.headers | {"X-Agent-Id": agent}, silent=True)

    def build_request(self, http: httpx.AsyncClient | BlockingHttp, call: ApiCall) -> httpx.Request:
        """Build one attempt at `call`, without the key."""
        timeouts = self._timeouts
        read = timeouts.total if call.silent else timeouts.read
        timeout = httpx.Timeout(read, connect=timeouts.connect, pool=timeouts.connect, write=timeouts.read)
        return http.build_request(
            call.method,
            self.base_url + call.path,
            params=call.query or None,
            headers={"User-Agent": _USER_AGENT, **call.headers},
            content=call.body,
            files=None if call.file is None else {"file": call.file},
            timeout=timeout,
        )


def to_stream_call(chat: ApiCall, form: Form | None) -> ApiCall:
    """Turn a call of /v1/chat into one of /v1/chat/stream."""
    headers = chat.headers | _stream_headers(form)
    return replace(chat, path="/v1/chat/stream", headers=headers, silent=False)


def build_filter_query(
    metadata: Mapping[str, str] | None,
    agent_id: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
    title: str | None,
    rating: Literal["bad", "good"] | None,
) -> dict[str, str]:
    """Build the query for the conversations that match all filters. Raises Misconfigured."""
    query = {
        **{f"metadata.{key}": value for key, value in (metadata or {}).items()},
        "agent_id": agent_id,
        "created_after": _to_iso_time("created_after", created_after),
        "created_before": _to_iso_time("created_before", created_before),
        "title": title,
        "rating": rating,
    }
    return omit_none(query)


def _to_iso_time(name: str, time: datetime | None) -> str | None:
    if time is not None and time.tzinfo is None:
        raise Misconfigured(f"{name} has no time zone.")
    return None if time is None else time.isoformat()


def build_cancel_call(trace_id: str) -> ApiCall:
    """Build POST /v1/chat/{trace_id}/cancel."""
    return ApiCall(method="POST", path=f"/v1/chat/{quote_segment(trace_id)}/cancel")


def build_events_call(trace_id: str, last_event_id: str | None, form: Form | None) -> ApiCall:
    """Build GET /v1/chat/{trace_id}/events. Raises Misconfigured."""
    headers = _stream_headers(form)
    if last_event_id is not None:
        headers["Last-Event-ID"] = _check_header("last_event_id", last_event_id)
    return ApiCall(method="GET", path=f"/v1/chat/{quote_segment(trace_id)}/events", headers=headers)


def describe_loss(lost: Exception) -> str:
    """Say why no response came. Some errors of httpx have no text."""
    return f"{type(lost).__name__}: {lost}" if str(lost) else type(lost).__name__


def build_json_call(
    method: Literal["PATCH", "POST"], path: str, body: object, *, key: str | None = None
) -> ApiCall:
    """Build a call with a JSON body, and with an Idempotency-Key if one is given."""
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
    return ApiCall(method=method, path=path, headers=headers, body=msgspec.json.encode(body))


def _stream_headers(form: Form | None) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}  # a proxy that compresses also buffers events
    return headers if form is None else {**headers, "X-Stream-Form": str(form)}


def omit_none(fields: Mapping[str, T | None]) -> dict[str, T]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def make_key() -> str:
    """Return a new Idempotency-Key."""
    return str(uuid.uuid4())


def quote_segment(text: str) -> str:
    """Quote a text for use as one segment of a path."""
    return quote(text, safe="")


def build_thread_path(conversation_id: str) -> str:
    """Return the path of a conversation."""
    return f"/v1/conversations/{quote_segment(conversation_id)}"


def build_webhook_path(*parts: str) -> str:
    """Return the path of a webhook endpoint, or of something below it."""
    return "/".join((WEBHOOKS, *map(quote_segment, parts)))


def build_feedback_path(message_id: str) -> str:
    """Return the path of the feedback on a reply."""
    return f"/v1/messages/{quote_segment(message_id)}/feedback"


def _check_header(name: str, text: str) -> str:
    """Strip `text` and check that it can be a header value. Raises Misconfigured."""
    text = text.strip()
    least = " " if name == "agent_id" else "!"  # an agent may be named, and names have blanks
    if not all(least <= character <= "~" for character in text):
        # Without the value: it may be a key.
        raise Misconfigured(f"{name} holds a character that a header cannot have.")
    return text


def _check_key(text: str) -> str:
    """Check an Idempotency-Key. Raises Misconfigured."""
    text = _check_header("idempotency_key", text)
    if not 1 <= len(text) <= _LONGEST_KEY or text.startswith('"'):
        raise Misconfigured(f"idempotency_key is 1 to {_LONGEST_KEY} characters, and is not quoted.")
    return text


def _read_setting(name: str, value: str | None, environ: Mapping[str, str]) -> str:
    """Return the argument, or else the environment variable, or else an empty text."""
    return (environ.get(_name_variable(name), "") if value is None else value).strip()


def _require_setting(name: str, value: str | None, environ: Mapping[str, str]) -> str:
    text = _read_setting(name, value, environ)
    if not text:
        raise Misconfigured(f"No {name}: give it as an argument, or set {_name_variable(name)}.")
    return text


def _name_variable(name: str) -> str:
    return f"AGENTCHAT_{name.upper()}"


def _check_address(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise Misconfigured(f"base_url is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment or url.userinfo:
        raise Misconfigured("base_url must be http:// or https://, a host, and at most a path.")
    return text.rstrip("/")
