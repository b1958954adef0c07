"""/openai/v1/responses: agents by OpenAI's Responses API (docs/integrate/openai-responses.md)."""
