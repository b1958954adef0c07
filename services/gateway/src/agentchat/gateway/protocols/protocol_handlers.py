"""List the handlers of other protocols than our own, and choose the form of refusals by path."""

from agentchat.gateway.http.refusals import RefusalFormat, format_problem
from agentchat.gateway.protocols.ag_ui.ag_ui_events import format_ag_ui_error
from agentchat.gateway.protocols.ag_ui.run_agent import run_agent
from agentchat.gateway.protocols.ai_sdk.ai_sdk_chat import chat_with_ui
from agentchat.gateway.protocols.ai_sdk.reconnect import reconnect
from agentchat.gateway.protocols.ai_sdk.ui_message_chunks import format_ai_sdk_error
from agentchat.gateway.protocols.openai.completions import complete, complete_in_azure
from agentchat.gateway.protocols.openai.model_list import get_model, list_models, models_in_azure
from agentchat.gateway.protocols.openai.openai_files import FILES
from agentchat.gateway.protocols.openai.openai_refusals import format_openai_error
from agentchat.gateway.protocols.openai.responses.create_response import create_in_azure, create_response
from agentchat.gateway.protocols.openai.responses.retrieve_response import (
    cancel_response,
    responses_in_azure,
    retrieve_response,
)

OPENAI = (
    *(complete, list_models, get_model, create_response, retrieve_response, cancel_response),
    *FILES,
    *(*complete_in_azure, *models_in_azure, create_in_azure, *responses_in_azure),
)
AI_SDK = (chat_with_ui, reconnect)
AG_UI = (run_agent,)

_WORDS = (
    ("/openai/", format_openai_error),
    ("/ai-sdk/", format_ai_sdk_error),
    ("/ag-ui/", format_ag_ui_error),
)


def choose_refusal_format(path: str) -> RefusalFormat:
    """Return the form of refusals at a path, also if there is no handler: for 404 and 405."""
    return next((words for prefix, words in _WORDS if path.startswith(prefix)), format_problem)
