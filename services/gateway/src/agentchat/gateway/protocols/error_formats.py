"""Choose the form of refusals by path: each protocol has its own."""

from agentchat.gateway.http.problems import RefusalFormat, format_problem
from agentchat.gateway.protocols.ag_ui.ag_ui_events import format_ag_ui_error
from agentchat.gateway.protocols.ai_sdk.ui_message_chunks import format_ai_sdk_error
from agentchat.gateway.protocols.openai.openai_errors import format_openai_error

_FORMATS = (
    ("/openai/", format_openai_error),
    ("/ai-sdk/", format_ai_sdk_error),
    ("/ag-ui/", format_ag_ui_error),
)


def choose_refusal_format(path: str) -> RefusalFormat:
    """Return the form of refusals at a path, also if there is no handler: for 404 and 405."""
    return next((form for prefix, form in _FORMATS if path.startswith(prefix)), format_problem)
