"""/openai/v1: agents as models of OpenAI's API, for any client that speaks it.

`responses` is the folder of the Responses API; the rest is of Chat Completions, and common to both. Where it
departs from OpenAI: docs/integrate/openai.md; why: decision 35.
"""

from litestar import Router

from gateway.http.problem_responses import Wording
from gateway.protocols.openai import responses
from gateway.protocols.openai.azure import canonical
from gateway.protocols.openai.completions import complete, has_bearer_key
from gateway.protocols.openai.model_list import get_model, list_models
from gateway.protocols.openai.openai_refusals import words
from gateway.protocols.openai.wire import OpenAIError

__all__ = ["HANDLERS", "WORDING", "canonical"]

HANDLERS = (
    Router(
        "/openai/v1",
        route_handlers=[complete, list_models, get_model, *responses.HANDLERS],
        guards=[has_bearer_key],
        security=[{"bearer": list[str]()}],
        tags=["openai"],
    ),
)
WORDING = Wording(prefix="/openai/", words=words, body=OpenAIError)
