"""Judging replies, as evaluators of a suite ask it: by the texts that the rubric quotes, found or not."""

import re
from typing import Any

import msgspec

from model_demo.request_facts import ConversationFacts

_QUOTED = re.compile(r'"([^"]+)"')
_RUBRIC = re.compile(r"^(?:Rubric|Which one is better): (.*)$", re.MULTILINE)


class _Material(msgspec.Struct):
    """What is judged: one reply, or two of which one may be better."""

    reply: str = ""
    first: dict[str, Any] | None = None
    second: dict[str, Any] | None = None


def verdict(conversation: ConversationFacts) -> dict[str, Any] | None:
    """The judge's answer, where it is asked for one: a rubric, material in JSON, a schema of a verdict.

    A reply fulfils a rubric that quotes texts if it has all of them; else if it says anything. Of two the one
    that has more of them is better.
    """
    properties = (conversation.schema or {}).get("properties", {})
    rubric = _RUBRIC.search(conversation.system)
    if rubric is None or not properties.keys() & {"fulfilled", "better"}:
        return None
    try:
        given = msgspec.json.decode(conversation.question, type=_Material)
    except msgspec.DecodeError:
        return None
    wanted = _QUOTED.findall(rubric[1])
    if "fulfilled" in properties:
        missing = [each for each in wanted if each.casefold() not in given.reply.casefold()]
        reason = f"The reply lacks {missing[0]!r}." if missing else "The reply has what is asked for."
        return {"reason": reason, "fulfilled": bool(given.reply) and not missing}
    first, second = (_found(wanted, each) for each in (given.first, given.second))
    better = "tie" if first == second else "first" if first > second else "second"
    return {"reason": f"They have {first} and {second} of {len(wanted)} texts.", "better": better}


def _found(wanted: list[str], side: dict[str, Any] | None) -> int:
    text = str((side or {}).get("reply", "")).casefold()
    return sum(each.casefold() in text for each in wanted)
