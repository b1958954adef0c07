"""Name every failure between an agent and a tool, with a text for the model.

`servers` raises ToolFailed only, which carries one ToolFault.
"""

from typing import Literal

import msgspec

FaultKind = Literal[
    "not_offered",
    "not_started",
    "busy",
    "address",
    "unreachable",
    "certificate",
    "broken",
    "timeout",
    "oversized",
    "redirect",
    "credentials",
    "secret",
    "authorization",
    "expired",
    "status",
    "protocol",
    "refused",
    "input",
    "asks_again",
    "stopped",
    "cancelled",
    "late",
    "ended",
    "lost",
    "crowded",
]

_WORDS: dict[FaultKind, str] = {
    "not_offered": "This agent has no such tool.",
    "not_started": "The call could not be started, so nothing was done.",
    "busy": "Too many tool calls are under way, so this one was not started. Try again later.",
    "address": "The tool server's address is not permitted.",
    "unreachable": "The tool server could not be reached.",
    "certificate": "The tool server's certificate could not be verified.",
    "broken": "The connection to the tool server broke before the answer was complete.",
    "timeout": "The tool did not answer in time.",
    "oversized": "The tool's answer was larger than 2 MiB or had over 200,000 brackets, and was not read.",
    "redirect": "The tool server has moved; its configured address must be changed.",
    "credentials": "The tool server refused this agent's credentials.",
    "secret": "The tool server needs a secret that the request did not bring, so the call was not made.",
    "authorization": "The tool server needs authorisation by an administrator.",
    "expired": "The tool server has ended the session.",
    "status": "The tool server failed.",
    "protocol": "The tool server's answer was not valid MCP.",
    "refused": "The tool server refused the call.",
    "input": "The tool asks a person for input, which is not possible here.",
    "asks_again": "The tool asked a person for input too often.",
    "stopped": "The call was interrupted because the service is being restarted.",
    "cancelled": "The call was not made, or was broken off, because the run was cancelled.",
    "late": "The call could not be started in time, so nothing was done.",
    "ended": "The run has ended, so the call was not made.",
    "lost": "The call was started once, and its result was lost.",
    "crowded": "The tool was run, but this account's tools returned too much just now to keep its output.",
}
# After these the tool may have taken effect.
_AMBIGUOUS: frozenset[FaultKind] = frozenset(
    {"broken", "timeout", "oversized", "status", "protocol", "redirect", "stopped", "cancelled", "lost"}
)
# A later fault of the same call replaces these, because it says more.
_SOFT: frozenset[FaultKind] = frozenset({"status", "credentials", "redirect", "protocol"})
# Another request of the same call would fail in the same way.
_FINAL: frozenset[FaultKind] = frozenset(
    {"address", "unreachable", "certificate", "oversized", "authorization"}
)


class ToolFault(msgspec.Struct, frozen=True):
    """A failure.

    `detail` is for our log; `explanation` is the server's own text, if it gave one. `writing`: the tool
    changes something, so the model is told if the effect is unknown.
    """

    kind: FaultKind
    detail: str = ""
    explanation: str = ""
    writing: bool = False

    @property
    def words(self) -> str:
        """Return the text for the model: without addresses, headers or stack traces."""
        words = _WORDS[self.kind]
        if self.explanation:
            words += f" It said: {self.explanation}"
        if self.writing and self.kind in _AMBIGUOUS:
            words += " It is not known whether the call took effect."
        return words

    @property
    def soft(self) -> bool:
        """Return True if a later fault of the same call replaces this one."""
        return self.kind in _SOFT

    @property
    def final(self) -> bool:
        """Return True if another request of the same call would fail in the same way."""
        return self.kind in _FINAL


class ToolFailed(Exception):  # noqa: N818 - an outcome
    """A tool call, listing or handshake failed; `fault` says why."""

    def __init__(self, kind: FaultKind, detail: str = "", explanation: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.fault = ToolFault(kind, detail, explanation)
