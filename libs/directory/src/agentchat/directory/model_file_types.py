"""Say which files a model reads itself: images, and PDFs in its provider's own form."""

from collections.abc import Mapping

import msgspec


class ModelInputs(msgspec.Struct, frozen=True):
    """The files that a model reads itself. All other documents, and PDFs without `pdfs`, become text."""

    images: bool
    pdfs: bool


_ALL = ModelInputs(images=True, pdfs=True)
_IMAGES = ModelInputs(images=True, pdfs=False)
_TEXT = ModelInputs(images=False, pdfs=False)

_BY_PREFIX: Mapping[str, Mapping[str, ModelInputs]] = {
    "anthropic": {"": _ALL, "claude-2": _TEXT, "claude-instant": _TEXT, "claude-3-": _IMAGES}
    | dict.fromkeys(("claude-3-5-sonnet", "claude-3-7-sonnet"), _ALL),
    "openai": {"": _TEXT}
    | dict.fromkeys(("gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4"), _ALL)
    | dict.fromkeys(("o1-mini", "o1-preview", "o3-mini"), _TEXT)
    | dict.fromkeys(("chatgpt-4o", "gpt-4-turbo", "gpt-4-vision", "gpt-4.5", "gemini-", "claude-"), _IMAGES)
    | dict.fromkeys(("pixtral", "mistral-medium", "mistral-small", "mistral-large-3"), _IMAGES)
    | dict.fromkeys(("llama-3.2-11b", "llama-3.2-90b", "llama3.2-vision", "llama-4", "llama4"), _IMAGES)
    | dict.fromkeys(("qwen-vl", "qwen2-vl", "qwen2.5-vl", "qwen2.5vl", "qwen3-vl", "qwen3.5"), _IMAGES)
    | dict.fromkeys(("gemma-3", "gemma3", "gemma-4", "gemma4", "llava", "internvl", "minicpm-v"), _IMAGES)
    | dict.fromkeys(("glm-4v", "glm-4.5v", "grok-2-vision", "grok-4", "kimi-k2.5", "demo-"), _IMAGES),
}
"""The key is the provider and the beginning of the model's name; the longest that fits counts."""


def find_model_inputs(provider: str, model: str, vision: bool | None = None) -> ModelInputs:
    """Return the files that a model reads itself. An agent's `vision` overrides the table.

    A router's names such as `openai/gpt-4o` count without what is before the slash.
    """
    name = model.lower().rpartition("/")[2]
    prefixes = _BY_PREFIX[provider]
    known = prefixes[max((each for each in prefixes if name.startswith(each)), key=len)]
    if vision is None:
        return known
    return ModelInputs(images=vision, pdfs=vision and known.pdfs)
