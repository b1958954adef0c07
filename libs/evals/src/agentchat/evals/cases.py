"""Define a case: a recorded run with everything needed to replay it. A line of a suite's `cases.jsonl`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agentchat.contracts.values import ToolSpec
from agentchat.conversations.aggregate.conversation import Conversation, Run, fold
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store import mapper
from agentchat.evals.errors import NotACase
from agentchat.evals.suite import read_lines, replace_file

MOST = 2_000
"""The most cases of a suite: all of them are in memory."""
MOST_BYTES = 32 * 1024 * 1024
"""The largest events of one conversation."""


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recorded run. `id` is its trace id.

    `events` are the conversation's, in order, up to the run's end, redacted. `passages` are the full texts of
    the run's sources by id: the log holds only snippets. `offered` are the tools that the agent had when the
    case was collected. `slices` describe the kind of run (`agent`, `end`, `tools`, `language`, `length`,
    `rating`); `feedback` is the mean score of its reply. `evaluators` are the owner's own for this case,
    written like those of the suite; `redacted` are the rules that found something.
    """

    id: str
    account_id: str
    conversation_id: str
    agent_id: str
    agent_version: int
    message: str
    events: tuple[msgspec.Raw, ...]
    passages: Mapping[str, str] = {}
    offered: tuple[ToolSpec, ...] = ()
    slices: Mapping[str, str] = {}
    feedback: float | None = None
    evaluators: tuple[Any, ...] = ()
    redacted: tuple[str, ...] = ()

    def fold_run(self) -> Run:
        """Return the recorded run. Raises NotACase."""
        return self.fold_events()[1]

    def fold_events(self) -> tuple[Conversation, Run]:
        """Return the conversation as it was at the end of the run, and the run. Raises NotACase."""
        try:
            conversation = fold(
                self.conversation_id, (mapper.decode_event(bytes(each)) for each in self.events)
            )
        except UnreadableEvent as error:
            raise NotACase(self.id, f"its events cannot be read: {error}") from None
        run = conversation.run(self.id)
        if run is None or run.state == "running":
            raise NotACase(self.id, "its events hold no such run that has ended")
        return conversation, run


def read_cases(path: Path) -> list[Case]:
    """Read the cases in the order of their ids. Raises UnfitSuite."""
    return sorted(read_lines(path, Case), key=lambda each: each.id)


def write_cases(path: Path, cases: Iterable[Case]) -> None:
    """Write the cases in the order of their ids, all of them or none. Raises UnfitSuite."""
    with replace_file(path) as file:
        file.writelines(encode_case(each) for each in sorted(cases, key=lambda each: each.id))


def merge_cases(present: Iterable[Case], new: Iterable[Case]) -> list[Case]:
    """Add new cases to the present ones. A replaced case keeps its `evaluators`."""
    found = {each.id: each for each in present}
    for each in new:
        same = found.get(each.id)
        found[each.id] = each if same is None else replace(each, evaluators=same.evaluators)
    return list(found.values())


def encode_case(case: Case) -> bytes:
    """Return a case as a line."""
    return msgspec.json.encode(case) + b"\n"
