"""The protocols in which clients start runs: our own in `chat`, the others each in a folder, and a line here.

The guards of a handler check key and limits, its `data` is the body; it reads both into a `RunRequest`, and
starts the run (`launch`; `start`, where clients send decisions about tool calls too).

`wording_at` says how refusals are worded at an address, whether there is anything or not; `canonical`
which path a handler has, where clients know it by another.
"""

from contracts import http
from gateway.http.problem_responses import Wording, head_of
from gateway.protocols import ag_ui, ai_sdk, chat, openai

HANDLERS = (chat.ROUTER, *openai.HANDLERS, *ai_sdk.HANDLERS, *ag_ui.HANDLERS)
_WORDINGS = (
    openai.WORDING,
    ai_sdk.WORDING,
    ag_ui.WORDING,
    Wording(prefix="", words=head_of, body=http.Problem),
)

canonical = openai.canonical

__all__ = ["HANDLERS", "canonical", "wording_at"]


def wording_at(path: str) -> Wording:
    """That of the protocol whose prefix the path has; else our own."""
    return next(each for each in _WORDINGS if path.startswith(each.prefix))
