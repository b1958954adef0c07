"""What a streamed completion consists of, as loose types: what is new, null or left out is let pass.

Source: the Chat Completions API's reference; what other servers send in addition is named at the field.
"""

from typing import Any

import msgspec

from orchestrator.models.provider_sse import decoded


class WireDetails(msgspec.Struct, frozen=True, gc=False):
    """Of the prompt's tokens; `cache_write_tokens` is OpenRouter's."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class ChunkUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of the complete call. `prompt_tokens` includes the cached, which two servers name apart."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: WireDetails | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek
    cached_tokens: int | None = None  # Moonshot


class WireFunction(msgspec.Struct, frozen=True, gc=False):
    """A piece of a call: `arguments` are pieces of JSON text, or the complete object."""

    name: str | None = None
    arguments: Any = None


class WireToolCall(msgspec.Struct, frozen=True, gc=False):
    """A piece of one of the calls; `index` and `id` are not to be relied on."""

    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None
    extra_content: dict[str, Any] | None = None


class ChunkDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the message. `content` may be parts (Mistral); reasoning has two names."""

    content: Any = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: list[WireToolCall] | None = None


class WireChoice(msgspec.Struct, frozen=True, gc=False):
    """One of the replies, of which there is one alone. Moonshot reports the usage here."""

    delta: ChunkDelta | None = None
    finish_reason: str | None = None
    usage: ChunkUsage | None = None


class WireGroq(msgspec.Struct, frozen=True, gc=False):
    """Where Groq reports the usage."""

    usage: ChunkUsage | None = None


class WireChunk(msgspec.Struct, frozen=True, gc=False):
    """Any event. `object` is "error" where the event is one (vLLM, Mistral)."""

    id: str | None = None
    object: str | None = None
    model: str | None = None
    choices: list[WireChoice] | None = None
    usage: ChunkUsage | None = None
    x_groq: WireGroq | None = None
    error: Any = None
    message: Any = None
    type: Any = None
    code: Any = None


_decoder = msgspec.json.Decoder(WireChunk)


def chunk_of(data: bytes) -> WireChunk:
    """An event's data. Raises StreamBroken."""
    return decoded(data, _decoder, WireChunk)
