"""Serve agents by OpenAI's Responses API: /openai/v1/responses (docs/integrate/openai-responses.md)."""
