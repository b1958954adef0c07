"""Models that see images, and models that read PDFs in their provider's form."""

import pytest

from agentchat.directory.model_file_types import ModelInputs, find_model_inputs

ALL, IMAGES, TEXT = (
    ModelInputs(images=True, pdfs=True),
    ModelInputs(images=True, pdfs=False),
    ModelInputs(images=False, pdfs=False),
)


@pytest.mark.parametrize(
    ("provider", "model", "vision", "inputs"),
    [
        ("anthropic", "claude-opus-4-5", None, ALL),
        ("anthropic", "claude-3-haiku-20240307", None, IMAGES),
        ("anthropic", "claude-3-5-sonnet-latest", None, ALL),
        ("anthropic", "claude-2.1", None, TEXT),
        ("anthropic", "claude-opus-4-5", False, TEXT),
        ("openai", "gpt-4o-mini", None, ALL),
        ("openai", "openai/GPT-5.2", None, ALL),
        ("openai", "o3-mini", None, TEXT),
        ("openai", "gpt-4", None, TEXT),
        ("openai", "gpt-4-turbo", None, IMAGES),
        ("openai", "an-own-model", None, TEXT),
        ("openai", "an-own-model", True, IMAGES),
    ],
)
def test_a_model_is_known_by_its_name(
    provider: str, model: str, vision: bool | None, inputs: ModelInputs
) -> None:
    assert find_model_inputs(provider, model, vision) == inputs
