"""/ag-ui/v1: agents for clients of AG-UI, versions 1.0 and 0.0.59 (docs/integrate/ag-ui.md, decision 60)."""

from gateway.http.problem_responses import Wording
from gateway.protocols.ag_ui.ag_ui_events import refusal_words
from gateway.protocols.ag_ui.run import run_agent
from gateway.protocols.ag_ui.wire import RunError

HANDLERS = (run_agent,)
WORDING = Wording(prefix="/ag-ui/", words=refusal_words, body=RunError)
