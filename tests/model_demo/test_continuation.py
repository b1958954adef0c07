"""A reply that was interrupted goes on exactly where it stopped, however the client asks for it."""

from typing import Any

import httpx

from tests.model_demo.messages import GET_ORDER

Message = dict[str, Any]
QUESTION: Message = {"role": "user", "content": "Where is ORD-1001?"}
LOOKED_UP: list[Message] = [
    QUESTION,
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "get_order", "input": {"order_id": "ORD-1001"}}],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": '{"order_id":"ORD-1001","status":"shipped","city":"Zürich 😀","total":99.5}',
            }
        ],
    },
]
INSTRUCTION = (
    "The connection broke. <already_sent>{}</already_sent> Go on right after it, without repeating it."
)


async def reply(http: httpx.AsyncClient, messages: list[Message]) -> list[dict[str, Any]]:
    request = {"model": "demo-shop-1", "max_tokens": 4000, "messages": messages, "tools": [GET_ORDER]}
    answer = await http.post("/v1/messages", json=request)
    assert answer.status_code == 200, answer.text
    content: list[dict[str, Any]] = answer.json()["content"]
    return content


def join_texts(content: list[dict[str, Any]]) -> str:
    return "".join(block.get("text", "") for block in content)


async def test_a_prefill_is_completed_at_every_offset(http: httpx.AsyncClient) -> None:
    whole = join_texts(await reply(http, LOOKED_UP))
    assert "Zürich 😀" in whole
    for cut in range(1, len(whole) + 1, 3):
        sent = whole[:cut].rstrip()
        rest = await reply(http, [*LOOKED_UP, {"role": "assistant", "content": sent}])
        assert sent + join_texts(rest) == whole


async def test_an_instruction_is_followed_at_every_offset(http: httpx.AsyncClient) -> None:
    whole = join_texts(await reply(http, LOOKED_UP))
    for cut in range(1, len(whole) + 1, 3):
        order = {"role": "user", "content": INSTRUCTION.format(whole[:cut])}
        rest = await reply(http, [*LOOKED_UP, order])
        assert whole[:cut] + join_texts(rest) == whole


async def test_instruction_may_follow_partial_reply_or_results(
    http: httpx.AsyncClient,
) -> None:
    whole = join_texts(await reply(http, LOOKED_UP))
    order = INSTRUCTION.format(whole[:30])
    after_partial = [
        *LOOKED_UP,
        {"role": "assistant", "content": whole[:30].rstrip()},
        {"role": "user", "content": order},
    ]
    results = LOOKED_UP[2]["content"]
    within = [*LOOKED_UP[:2], {"role": "user", "content": [*results, {"type": "text", "text": order}]}]
    assert join_texts(await reply(http, after_partial)) == whole[30:]
    assert join_texts(await reply(http, within)) == whole[30:]


async def test_calls_that_were_not_made_are_made_after_the_text(http: httpx.AsyncClient) -> None:
    whole = await reply(http, [QUESTION])
    assert [block["type"] for block in whole] == ["text", "tool_use"]
    half = whole[0]["text"][:11]
    rest = await reply(http, [QUESTION, {"role": "assistant", "content": half}])
    assert half + rest[0]["text"] == whole[0]["text"]
    assert rest[1] == whole[1]
    order = {"role": "user", "content": INSTRUCTION.format(whole[0]["text"])}
    assert await reply(http, [QUESTION, order]) == [whole[1]]
