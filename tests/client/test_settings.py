"""The client's settings: their sources, and the errors for missing or wrong ones."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from agentchat.client import AgentChat, Misconfigured
from agentchat.client.api_calls import ApiKey
from tests.client.conftest import Connect, Serve
from tests.client.driving import AGENT, KEY
from tests.client.given import FORM_2, REPLY
from tests.client.server import as_json, encode_lines, split_chunks

URL = "http://127.0.0.1:1"


def test_the_environment_says_who_asks_whom_and_where(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(as_json(REPLY))
    monkeypatch.setenv("AGENTCHAT_API_KEY", f" {KEY}\n")
    monkeypatch.setenv("AGENTCHAT_BASE_URL", f"{server.url}/")
    monkeypatch.setenv("AGENTCHAT_AGENT_ID", AGENT)
    connect(api_key=None, base_url=None, agent_id=None).chat("Hello")
    asked = server.requests[0]
    assert asked.target == "/v1/chat"
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["x-agent-id"] == AGENT


def test_arguments_win_over_the_environment(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(as_json(REPLY))
    monkeypatch.setenv("AGENTCHAT_API_KEY", "sk-ac-other")
    monkeypatch.setenv("AGENTCHAT_BASE_URL", URL)
    monkeypatch.setenv("AGENTCHAT_AGENT_ID", "other")
    connect(server).chat("Hello")
    assert server.requests[0].headers["x-api-key"] == KEY
    assert server.requests[0].headers["x-agent-id"] == AGENT


@pytest.mark.parametrize("missing", ["api_key", "base_url"])
@pytest.mark.parametrize("value", [None, "", "  "], ids=["absent", "empty", "blank"])
def test_a_missing_setting_is_named_with_its_variable(
    connect: Connect, missing: str, value: str | None
) -> None:
    with pytest.raises(Misconfigured, match=f"No {missing}: .*AGENTCHAT_{missing.upper()}"):
        connect(**({"base_url": URL} | {missing: value}))


def test_an_agent_is_needed_only_where_one_is_asked(serve: Serve, connect: Connect) -> None:
    server = serve(as_json({"data": []}), as_json(REPLY))
    client = connect(server, agent_id=None)
    assert client.conversations() == []
    with pytest.raises(Misconfigured, match="AGENTCHAT_AGENT_ID"):
        client.chat("Hello")
    client.chat("Hello", agent_id=AGENT)
    assert "x-agent-id" not in server.requests[0].headers
    assert server.requests[1].headers["x-agent-id"] == AGENT


@pytest.mark.parametrize(
    "url",
    ["ftp://host", "host:80", "http://", "http://h/?q=1", "http://h/#f", "http://me:secret@h", "http://h:x"],
)
def test_an_address_that_cannot_be_right_is_refused(connect: Connect, url: str) -> None:
    with pytest.raises(Misconfigured, match="base_url") as raised:
        connect(base_url=url)
    assert "secret" not in str(raised.value)


def test_a_path_before_the_api_is_kept(serve: Serve, connect: Connect) -> None:
    server = serve(as_json(REPLY))
    connect(base_url=f"{server.url}/behind/a/proxy/").chat("Hello")
    assert server.requests[0].target == "/behind/a/proxy/v1/chat"


@pytest.mark.parametrize(
    "key", ["sk-ac-a b", "sk-ac-a\nX-Other: 1", "sk-ac-ü"], ids=["space", "line", "umlaut"]
)
def test_a_key_that_cannot_be_a_header_is_refused_without_being_shown(connect: Connect, key: str) -> None:
    with pytest.raises(Misconfigured, match="api_key") as raised:
        connect(base_url=URL, api_key=key)
    assert "sk-ac" not in str(raised.value)
    assert "sk-ac" not in repr(raised.value)


def test_a_repr_says_where_but_never_the_key(connect: Connect) -> None:
    shown = repr(connect(base_url=URL).client)
    assert URL in shown
    assert AGENT in shown
    assert KEY not in shown
    assert KEY not in repr(ApiKey(KEY))


def test_an_http_client_of_ones_own_stays_open(serve: Serve) -> None:
    server = serve(as_json(REPLY), as_json(REPLY))
    with httpx.Client(headers={"X-From": "me"}) as http:
        with AgentChat(KEY, base_url=server.url, agent_id=AGENT, http_client=http) as client:
            client.chat("Hello")
        assert not http.is_closed
        assert KEY not in str(http.headers)
    assert server.requests[0].headers["x-from"] == "me"


def test_threads_share_a_blocking_client(serve: Serve) -> None:
    server = serve(*[as_json(REPLY)] * 8)
    with AgentChat(KEY, base_url=server.url, agent_id=AGENT) as client, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(client.chat, [f"number {number}" for number in range(8)], timeout=20))
    assert len(replies) == 8
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 8


def test_the_blocking_client_works_within_a_running_loop(serve: Serve) -> None:
    """Notebooks run one. A stream that is dropped half read leaves nothing to the loop."""
    server = serve(as_json(REPLY), split_chunks(encode_lines(*FORM_2)))

    async def chat_and_stream() -> None:
        with AgentChat(KEY, base_url=server.url, agent_id=AGENT) as client:
            client.chat("Hello")
            with client.stream("Hello", form=2) as stream:
                next(stream)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(chat_and_stream())
