"""The handlers of other protocols than our own, and the form that refusals have at their addresses."""

from agentchat.gateway.http.refusals import Words, problem_words
from agentchat.gateway.protocols.ag_ui.ag_ui_events import ag_ui_words
from agentchat.gateway.protocols.ag_ui.run import run_agent
from agentchat.gateway.protocols.ai_sdk.ai_sdk_chat import chat_with_ui
from agentchat.gateway.protocols.ai_sdk.reconnect import reconnect
from agentchat.gateway.protocols.ai_sdk.ui_message_chunks import ai_sdk_words
from agentchat.gateway.protocols.openai.completions import complete, complete_in_azure
from agentchat.gateway.protocols.openai.model_list import get_model, list_models, models_in_azure
from agentchat.gateway.protocols.openai.openai_refusals import openai_words
from agentchat.gateway.protocols.openai.responses.create import create_in_azure, create_response
from agentchat.gateway.protocols.openai.responses.retrieve import (
    cancel_response,
    responses_in_azure,
    retrieve_response,
)

OPENAI = (
    *(complete, list_models, get_model, create_response, retrieve_response, cancel_response),
    *(*complete_in_azure, *models_in_azure, create_in_azure, *responses_in_azure),
)
AI_SDK = (chat_with_ui, reconnect)
AG_UI = (run_agent,)

_WORDS = (("/openai/", openai_words), ("/ai-sdk/", ai_sdk_words), ("/ag-ui/", ag_ui_words))


def words_at(path: str) -> Words:
    """Return the form of refusals at a path, whether there is a handler or not: also for 404 and 405."""
    return next((words for prefix, words in _WORDS if path.startswith(prefix)), problem_words)
