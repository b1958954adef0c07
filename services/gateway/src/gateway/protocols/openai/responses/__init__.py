"""/openai/v1/responses: agents by OpenAI's Responses API (docs/integrate/openai-responses.md)."""

from gateway.protocols.openai.responses.create import create_response
from gateway.protocols.openai.responses.retrieve import cancel_response, retrieve_response

HANDLERS = (create_response, retrieve_response, cancel_response)
