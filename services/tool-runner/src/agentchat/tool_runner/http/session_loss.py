"""Decide from an error response whether the server has lost the MCP session: one rule for every status."""

import re

_GONE = (404, 410)
"""MCP's own status, and its HTTP sibling: the server has not processed the message."""

_CHARS = 2000
_CLAUSE = re.compile(r"[.;\n\"'{}\[\]()]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STATE = re.compile(
    r"\b(?:not (?:be )?(?:found|exist|known|valid|active|recogni[sz]ed|find)|expired|invalid|unknown|missing"
    r"|unrecogni[sz]ed|terminated|required|closed|ended|no (?:valid|such|longer|active|transport)"
    r")\b"
)
# Only the transport's session counts. If a tool lost its own ("checkout session not found"), a write may have
# been done. So before and after "session" only these words may stand, and none of the others.
_NEUTRAL = re.compile(
    r"|a|an|any|bad|expired|find|for|http|id|in|invalid|mcp|missing|no|or|the|transport|unknown|unrecognized"
    r"|valid|your|with|.*[:,]"
)
_THINGS = re.compile(r"cookie|data|key|limit|name|state|storage|store|title|token|type|variable")


def is_session_gone(status: int, body: bytes) -> bool:
    """Return True if the server has lost the session, so that the message was not processed.

    Any message may then be sent again on a new session, also one that writes.
    """
    if status in _GONE:
        return True
    text = _CAMEL.sub(" ", body[:_CHARS].decode("utf-8", "replace")).lower()
    text = text.replace("_", " ").replace("-", " ").replace("n't ", " not ")
    return "server not initialized" in text or any(map(_is_about_lost_session, _CLAUSE.split(text)))


def _is_about_lost_session(clause: str) -> bool:
    words = clause.split()
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        is_ours = _NEUTRAL.fullmatch(before) and not _THINGS.fullmatch(after)
        if word.strip(":,") == "session" and is_ours and _STATE.search(clause):
            return True
    return False
