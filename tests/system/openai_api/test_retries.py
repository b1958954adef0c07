"""A request that is sent again."""

from typing import Any

import openai
import pytest

from tests.system.calling import Caller
from tests.system.openai_api.conftest import TalkTo

pytestmark = pytest.mark.requirement("OPENAI-API")


async def test_the_sdks_retry_joins_the_first_try(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "tried-twice", max_retries=0)
    asked: dict[str, Any] = {"model": talk.model, "messages": [{"role": "user", "content": "once"}]}
    create = talk.client.chat.completions.with_raw_response.create
    first = await create(**asked)
    joined = await create(**asked, extra_headers={"x-stainless-retry-count": "1"})
    assert joined.headers["x-trace-id"] == first.headers["x-trace-id"]
    assert joined.parse().choices == first.parse().choices
    fresh = await create(**asked)
    assert fresh.headers["x-trace-id"] != first.headers["x-trace-id"]


async def test_an_idempotency_key_gives_the_first_answer_again(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "keyed")
    await talk.ask("one")
    _, conversation_id = await talk.ask("two", **{"Idempotency-Key": "key-two"})
    del talk.messages[2:]
    _, again = await talk.ask("two", **{"Idempotency-Key": "key-two"})
    assert again == conversation_id
    assert len(await talk.saved(conversation_id)) == 4
    with pytest.raises(openai.ConflictError) as conflict:
        await talk.ask("three", **{"Idempotency-Key": "key-two"})
    assert conflict.value.code == "idempotency_conflict"
    assert conflict.value.response.headers["x-should-retry"] == "false"
