"""The door for OpenAI's clients, as its own Python SDK sees it (docs/openai.md)."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.system.calling import Caller, MakeAgent

pytestmark = pytest.mark.requirement("OPENAI-DOOR")

ORDER = "Where is my order ORD-1001?"
Messages = list[ChatCompletionMessageParam]


class Talk:
    """One client with one conversation, which it keeps itself and shows whole each time."""

    def __init__(self, caller: Caller, key: str | None = None, **client: Any) -> None:
        self.caller = caller
        self.model = caller.headers["X-Agent-Id"]
        self.client = AsyncOpenAI(
            base_url=f"{caller.base_url}/openai/v1",
            api_key=caller.headers["X-Api-Key"],
            default_headers={} if key is None else {"X-Conversation-Id": key},
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False, timeout=50),
            **client,
        )
        self.messages: Messages = []

    async def ask(self, text: str, **headers: str) -> tuple[str, str]:
        """The reply, which is kept; and the conversation that it is in."""
        self.messages.append({"role": "user", "content": text})
        raw = await self.client.chat.completions.with_raw_response.create(
            model=self.model, messages=self.messages, extra_headers=headers
        )
        reply = raw.parse().choices[0].message.content
        assert reply is not None
        self.messages.append({"role": "assistant", "content": reply})
        return reply, raw.headers["x-conversation-id"]

    async def saved(self, conversation_id: str) -> list[str]:
        return [message["content"] for message in await self.caller.messages(conversation_id)]


TalkTo = Callable[..., Talk]


@pytest.fixture
async def talk_to() -> AsyncIterator[TalkTo]:
    """Makes the client of an agent's caller; all are closed behind the test."""
    async with contextlib.AsyncExitStack() as stack:

        def make(caller: Caller, key: str | None = None, **client: Any) -> Talk:
            talk = Talk(caller, key, **client)
            stack.push_async_callback(talk.client.close)
            return talk

        yield make


@pytest.fixture
async def echo(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-echo")


async def test_models_are_the_accounts_agents_by_name_or_id(
    talk_to: TalkTo, caller: Caller, echo: Caller
) -> None:
    shop = talk_to(caller)
    listed = [model async for model in shop.client.models.list()]
    agent_id = caller.headers["X-Agent-Id"]
    found = await shop.client.models.retrieve(agent_id)
    assert found.id in {model.id for model in listed}
    assert (await shop.client.models.retrieve(found.id)).created == found.created
    with pytest.raises(openai.NotFoundError) as missing:
        await shop.client.models.retrieve(echo.headers["X-Agent-Id"])
    assert missing.value.code == "model_not_found"
    named = await shop.client.chat.completions.create(
        model=found.id, messages=[{"role": "user", "content": "hello"}]
    )
    assert named.model == found.id


async def test_a_completion_is_the_saved_reply_and_its_tokens(talk_to: TalkTo, caller: Caller) -> None:
    talk = talk_to(caller, "a-completion")
    raw = await talk.client.chat.completions.with_raw_response.create(
        model=talk.model, messages=[{"role": "user", "content": ORDER}]
    )
    done = raw.parse()
    (choice,) = done.choices
    question, reply = await caller.messages(raw.headers["x-conversation-id"])
    assert (question["content"], reply["content"]) == (ORDER, choice.message.content)
    assert done.id == f"chatcmpl-{raw.headers['x-trace-id']}"
    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None), "we ran the tools"
    assert done.usage is not None
    assert done.usage.total_tokens == reply["token_count"]
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    assert done.usage.completion_tokens > 0


async def test_a_stream_is_the_same_text_and_ends_with_a_finish(talk_to: TalkTo, caller: Caller) -> None:
    talk = talk_to(caller)
    stream = await talk.client.chat.completions.create(
        model=talk.model,
        messages=[{"role": "user", "content": ORDER}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    conversation_id = stream.response.headers["x-conversation-id"]
    told = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in told)
    assert text == (await talk.saved(conversation_id))[-1]
    assert told[0].delta.role == "assistant"
    assert [choice.finish_reason for choice in told] == [None] * (len(told) - 1) + ["stop"]
    assert not any(choice.delta.tool_calls for choice in told)
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


async def test_sources_are_annotations(talk_to: TalkTo, policies: Caller) -> None:
    talk = talk_to(policies)
    asked: dict[str, Any] = {
        "model": talk.model,
        "messages": [{"role": "user", "content": "May I return an order?"}],
    }
    message = (await talk.client.chat.completions.create(**asked)).choices[0].message
    cited = [note.url_citation.url for note in message.annotations or ()]
    assert cited
    stream = await talk.client.chat.completions.create(**asked, stream=True)
    notes = [note async for chunk in stream for note in _notes(chunk)]
    assert [note["url_citation"]["url"] for note in notes] == cited


def _notes(chunk: Any) -> list[dict[str, Any]]:
    return [note for choice in chunk.choices for note in getattr(choice.delta, "annotations", None) or ()]


async def test_under_a_key_what_is_shown_goes_on_where_it_was(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "goes-on")
    _, first = await talk.ask("one")
    _, second = await talk.ask("two")
    _, third = await talk.ask("three")
    assert first == second == third
    assert (await talk.saved(first))[::2] == ["one", "two", "three"]


async def test_what_does_not_match_begins_a_conversation_with_what_is_shown(
    talk_to: TalkTo, echo: Caller
) -> None:
    talk = talk_to(echo, "another")
    _, first = await talk.ask("one")
    title = talk_to(echo, "another")
    _, aside = await title.ask("### Task: a title for: one")
    _, second = await talk.ask("two")
    assert first == second != aside, "what a client asks aside stays aside"
    talk.messages[1] = {"role": "assistant", "content": "I never said that."}
    _, edited = await talk.ask("three")
    assert edited not in (first, aside)
    assert (await talk.saved(edited))[0] == "three", "what was shown before is not ours"
    again = talk_to(echo, "another")
    again.messages = talk.messages[:]
    _, onward = await again.ask("four")
    assert onward == edited


async def test_a_reply_made_anew_is_a_conversation_of_its_own(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "anew")
    _, first = await talk.ask("one")
    await talk.ask("two")
    del talk.messages[2:]
    _, forked = await talk.ask("two")
    assert forked != first
    assert len(await talk.saved(first)) == 4


async def test_another_key_account_or_agent_never_finds_a_conversation(
    talk_to: TalkTo, echo: Caller, make_agent: MakeAgent
) -> None:
    talk = talk_to(echo, "mine")
    _, mine = await talk.ask("hi")
    other_agent = await make_agent("demo-echo")
    for caller, key in ((echo, "other"), (echo, None), (other_agent, "mine")):
        other = talk_to(caller, key)
        other.messages = talk.messages[:]
        _, theirs = await other.ask("and?")
        assert theirs != mine


async def test_without_a_key_a_conversation_is_in_no_list(talk_to: TalkTo, echo: Caller) -> None:
    _, unlisted = await talk_to(echo).ask("secretly")
    _, listed = await talk_to(echo, "listed").ask("openly")
    rows: list[str] = []
    while listed not in rows:  # the list may be behind by a second
        response = await echo.get("/v1/conversations", limit=100)
        rows = [row["conversation_id"] for row in response.json()["data"]]
    assert unlisted not in rows
    assert (await talk_to(echo).saved(unlisted))[0] == "secretly"


async def test_the_model_sees_what_was_shown_and_the_callers_instructions(
    talk_to: TalkTo, make_agent: MakeAgent
) -> None:
    talk = talk_to(await make_agent("demo-echo", system_prompt="Be kind."), "seen")
    talk.messages = [
        {"role": "system", "content": "Speak French."},
        {"role": "user", "content": "Bonjour"},
        {"role": "assistant", "content": "Salut"},
    ]
    raw = await talk.client.chat.completions.with_raw_response.create(
        model=talk.model, messages=[*talk.messages, {"role": "user", "content": "again"}]
    )
    shorter = talk_to(talk.caller, "seen-less")
    short = await shorter.client.chat.completions.create(
        model=talk.model, messages=[{"role": "user", "content": "again"}]
    )
    more, less = raw.parse().usage, short.usage
    assert more is not None
    assert less is not None
    assert more.prompt_tokens > less.prompt_tokens


async def test_the_sdks_second_try_joins_the_first(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "tried-twice", max_retries=0)
    asked: dict[str, Any] = {"model": talk.model, "messages": [{"role": "user", "content": "once"}]}
    create = talk.client.chat.completions.with_raw_response.create
    first = await create(**asked)
    joined = await create(**asked, extra_headers={"x-stainless-retry-count": "1"})
    assert joined.headers["x-trace-id"] == first.headers["x-trace-id"]
    assert joined.parse().choices == first.parse().choices
    anew = await create(**asked)
    assert anew.headers["x-trace-id"] != first.headers["x-trace-id"]


async def test_an_idempotency_key_gives_the_first_answer_again(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "keyed")
    await talk.ask("one")
    _, conversation_id = await talk.ask("two", **{"Idempotency-Key": "door-two"})
    del talk.messages[2:]
    _, again = await talk.ask("two", **{"Idempotency-Key": "door-two"})
    assert again == conversation_id
    assert len(await talk.saved(conversation_id)) == 4
    with pytest.raises(openai.ConflictError) as conflict:
        await talk.ask("three", **{"Idempotency-Key": "door-two"})
    assert conflict.value.code == "idempotency_conflict"
    assert conflict.value.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("logprobs", True),
        ("tool_choice", "required"),
        ("response_format", {"type": "json_object"}),
        ("modalities", ["audio"]),
    ],
)
async def test_what_would_be_missed_is_refused_by_name(
    talk_to: TalkTo, echo: Caller, field: str, value: Any
) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], field: value}
    with pytest.raises(openai.BadRequestError) as refused:
        await talk_to(echo).client.chat.completions.create(model=echo.headers["X-Agent-Id"], **asked)
    assert refused.value.param == field
    assert refused.value.type == "invalid_request_error"


async def test_an_image_is_refused_by_its_place(talk_to: TalkTo, echo: Caller) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await talk_to(echo).client.chat.completions.create(
            model=echo.headers["X-Agent-Id"],
            messages=[
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
            ],
        )
    assert refused.value.param == "messages[0].content"


async def test_the_clients_tools_and_caps_are_passed_over(talk_to: TalkTo, echo: Caller) -> None:
    done = await talk_to(echo).client.chat.completions.create(
        model=echo.headers["X-Agent-Id"],
        messages=[{"role": "user", "content": [{"type": "text", "text": "hello there"}]}],
        temperature=0,
        max_tokens=1,
        tools=[{"type": "function", "function": {"name": "own", "parameters": {}}}],
        tool_choice="auto",
        extra_body={"chat_id": "of a client"},
    )
    assert "hello there" in (done.choices[0].message.content or "")


async def test_keys_are_bearer_here_and_only_here(echo: Caller) -> None:
    key, agent = echo.headers["X-Api-Key"], echo.headers["X-Agent-Id"]
    body = {"model": agent, "messages": [{"role": "user", "content": "hi"}]}
    url = f"{echo.base_url}/openai/v1/chat/completions"
    ours = await echo.http.post(url, json=body, headers={"X-Api-Key": key})
    assert (ours.status_code, ours.json()["error"]["code"]) == (401, "missing_api_key")
    assert ours.headers["www-authenticate"].startswith("Bearer")
    theirs = await echo.http.post(url, json=body, headers={"Authorization": f"bearer {key}"})
    assert theirs.status_code == 200
    azure = await echo.http.post(url, json=body, headers={"api-key": key})
    assert azure.status_code == 200
    bearer = {"Authorization": f"Bearer {key}", "X-Agent-Id": agent}
    elsewhere = await echo.http.post(f"{echo.base_url}/v1/chat", json={"message": "hi"}, headers=bearer)
    assert elsewhere.status_code == 401
    assert elsewhere.headers["content-type"] == "application/problem+json"


async def test_every_refusal_has_openais_shape(echo: Caller) -> None:
    bearer = {"Authorization": f"Bearer {echo.headers['X-Api-Key']}"}
    url = f"{echo.base_url}/openai/v1"
    for response, status in (
        (await echo.http.get(f"{url}/none", headers=bearer), 404),
        (await echo.http.get(f"{url}/chat/completions", headers=bearer), 405),
        (await echo.http.post(f"{url}/chat/completions", content=b"{}", headers=bearer), 415),
        (await echo.http.post(f"{url}/chat/completions", json={}, headers=bearer), 400),
        (await echo.http.post(f"{url}/chat/completions", json=[], headers=bearer), 400),
        (await echo.http.post(f"{url}/chat/completions", json={"model": 1}, headers=bearer), 400),
    ):
        assert response.status_code == status
        assert response.headers["content-type"] == "application/json"
        assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    twice = b'{"model":"a","model":"b","messages":[]}'
    headers = {**bearer, "Content-Type": "application/json"}
    read = await echo.http.post(f"{url}/chat/completions", content=twice, headers=headers)
    assert (read.status_code, read.json()["error"]["param"]) == (400, "model"), "as strict as our own"


async def test_a_run_that_fails_is_an_error_before_or_in_the_stream(
    talk_to: TalkTo, make_agent: MakeAgent
) -> None:
    failing = talk_to(await make_agent("demo-echo?fail=400"), max_retries=0)
    asked: dict[str, Any] = {"model": failing.model, "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(openai.InternalServerError) as refused:
        await failing.client.chat.completions.create(**asked)
    assert (refused.value.status_code, refused.value.code) == (502, "provider_error")
    stream = await failing.client.chat.completions.create(**asked, stream=True)
    with pytest.raises(openai.APIError) as broken:
        _ = [chunk async for chunk in stream]
    assert broken.value.code == "provider_error"
