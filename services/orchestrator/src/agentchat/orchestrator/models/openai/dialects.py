"""List how servers of the Chat Completions API differ (docs/decisions/, the provider `openai`).

The dialect is that of the host, or what the agent's parameter `dialect` names, or else COMPATIBLE.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

_ANY_ID = re.compile(r"[!-~]{1,40}")


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of a server. The defaults suit most servers, vLLM and Ollama among them.

    hosts: names it is known by; a leading dot covers every name that ends so.
    cap: the name of the token limit.
    stream_usage: a stream reports its usage only on request.
    schema: the output format. `strict` enforces a closed and complete schema, `plain` takes any and enforces
        it as far as it can, `object` promises JSON of any kind.
    schema_with_tools: a format is allowed next to tools. Elsewhere it keeps the model from calling them.
    reasoning: whether thinking of this run goes back: `never`, as it `came`, or `always`, which is a field of
        every assistant message, even if empty.
    call_id: the ids of calls that it accepts.
    extra_content: calls carry an opaque `extra_content` that must go back.
    user_after_tool: a user's message may follow the results of tools.
    safety_identifier: it takes a pseudonym of the end user in this field.
    max_tools: how many tools a request may have. description_chars: how long a tool's description may be.
    """

    hosts: tuple[str, ...] = ()
    cap: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    schema: Literal["strict", "plain", "object"] = "plain"
    schema_with_tools: bool = False
    reasoning: Literal["never", "came", "always"] = "came"
    call_id: re.Pattern[str] = _ANY_ID
    extra_content: bool = False
    user_after_tool: bool = True
    safety_identifier: bool = False
    max_tools: int | None = None
    description_chars: int | None = None


COMPATIBLE = "compatible"

DIALECTS: dict[str, Dialect] = {
    COMPATIBLE: Dialect(),
    "openai": Dialect(
        hosts=("api.openai.com", ".api.openai.com"),
        safety_identifier=True,
        cap="max_completion_tokens",
        schema="strict",
        schema_with_tools=True,
        reasoning="never",
        max_tools=128,
        description_chars=1024,
    ),
    "azure": Dialect(
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        cap="max_completion_tokens",
        schema="strict",
        schema_with_tools=True,
        reasoning="never",
        max_tools=128,
        description_chars=1024,
    ),
    "deepseek": Dialect(hosts=("api.deepseek.com",), schema="object", reasoning="always"),
    "gemini": Dialect(
        hosts=("generativelanguage.googleapis.com", ".aiplatform.googleapis.com"),
        reasoning="never",
        extra_content=True,
    ),
    "groq": Dialect(
        hosts=("api.groq.com",),
        cap="max_completion_tokens",
        schema="object",
        reasoning="never",
        max_tools=128,
    ),
    "mistral": Dialect(
        hosts=("api.mistral.ai",),
        stream_usage=False,
        reasoning="never",
        call_id=re.compile(r"[a-zA-Z0-9]{9}"),
        user_after_tool=False,
    ),
    "moonshot": Dialect(hosts=("api.moonshot.ai", "api.moonshot.cn"), schema="object"),
    "ollama": Dialect(hosts=("ollama.com",)),
    "openrouter": Dialect(hosts=("openrouter.ai",)),
    "vllm": Dialect(),
    "xai": Dialect(hosts=("api.x.ai",), reasoning="never"),
    "zai": Dialect(hosts=("api.z.ai", "open.bigmodel.cn"), schema="object"),
}


def find_dialect(base_url: str, parameters: Mapping[str, Any]) -> Dialect:
    """Return the dialect of the server at `base_url`, for an agent with these parameters."""
    named = parameters.get("dialect")
    if named is not None:
        return DIALECTS.get(named, DIALECTS[COMPATIBLE])
    host = urlsplit(base_url).hostname or ""
    for dialect in DIALECTS.values():
        if any(host == name or (name[0] == "." and host.endswith(name)) for name in dialect.hosts):
            return dialect
    return DIALECTS[COMPATIBLE]
