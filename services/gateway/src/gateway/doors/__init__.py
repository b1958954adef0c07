"""The doors: the ways to ask for a run. Each has a folder with its handlers, and its line here.

A handler that asks for a run says in which `Way`, and has it started (`gateway.chat.start`).

`wording_at` says how refusals are worded at an address, whether there is anything or not; `canonical`
which path a handler has, where clients know it by another.
"""

from contracts import http
from gateway.doors import ag_ui, ai_sdk, json, openai, streams
from gateway.http.problems import Wording, head_of

HANDLERS = (json.chat, streams.stream_chat, *openai.HANDLERS, *ai_sdk.HANDLERS, *ag_ui.HANDLERS)
_WORDINGS = (
    openai.WORDING,
    ai_sdk.WORDING,
    ag_ui.WORDING,
    Wording(prefix="", words=head_of, body=http.Problem),
)

canonical = openai.canonical

__all__ = ["HANDLERS", "canonical", "wording_at"]


def wording_at(path: str) -> Wording:
    """That of the door whose prefix the path has; else our own."""
    return next(each for each in _WORDINGS if path.startswith(each.prefix))
