"""What is refused, what is passed over, and in which shape."""

from typing import Any

import openai
import pytest

from tests.system.calling import Caller
from tests.system.openai_api.conftest import TalkTo

pytestmark = pytest.mark.requirement("OPENAI-API")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("logprobs", True),
        ("tool_choice", "required"),
        ("response_format", {"type": "grammar"}),
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
    assert ours.status_code == 401
    assert ours.json()["error"]["code"] == "missing_api_key"
    assert "Authorization: Bearer" in ours.json()["error"]["message"]
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
