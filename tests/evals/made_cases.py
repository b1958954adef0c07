"""Cases of the recorded histories (tests/histories), results, and folders with a suite in them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentchat.contracts import events
from agentchat.contracts.replay_messages import AskedTool
from agentchat.directory.agent_config import AgentSettings
from agentchat.evals.case_results import CaseOutcome, CaseResult
from agentchat.evals.cases import Case, write_cases
from agentchat.evals.compared_run import ComparedRun, RunFigures, RunOutput
from agentchat.evals.suite import (
    SETTINGS,
    Suite,
    SuiteAgent,
    make_folder,
    read_suite,
    write_agent,
    write_file,
)
from tests.conversations import recorded

RUNS = tuple(name for name in recorded.WHOLE if name != "erased")
"""The histories that hold a run."""
ACCOUNT = "account-1"


def build_history_case(name: str) -> Case:
    """The last run of a history that has ended."""
    found = recorded.encode_carried(name)
    facts = recorded.build_facts(found)
    last = max(place for place, event in enumerate(facts) if isinstance(event, events.RunEnd))
    trace_id = facts[last].trace_id
    question = next(
        each
        for each in facts
        if isinstance(each, events.MessageSaved) and each.role == "user" and each.trace_id == trace_id
    )
    return Case(
        id=trace_id,
        account_id=ACCOUNT,
        conversation_id=found.conversation_id,
        agent_id=question.agent_id,
        agent_version=1,
        message=question.content,
        events=tuple(msgspec.Raw(each.state) for each in found.stored[: last + 1]),
        slices={"end": "completed"},
    )


def make_cases(count: int) -> list[Case]:
    """Cases of one history, each with an id of its own."""
    case = build_history_case("shop")
    made = []
    for number in range(count):
        trace_id = f"{number:032x}"
        renamed = tuple(
            msgspec.Raw(bytes(each).replace(case.id.encode(), trace_id.encode())) for each in case.events
        )
        made.append(msgspec.structs.replace(case, id=trace_id, events=renamed))
    return made


def make_suite(folder: Path, given: Iterable[Case] = (), settings: str = "") -> Suite:
    """A suite with these cases; `settings` are added to `suite.yaml`."""
    make_folder(folder)
    write_file(folder / SETTINGS, f"agent: agent-1\naccount: {ACCOUNT}\n{settings}".encode())
    agent = AgentSettings(name="Shop", model="demo-shop-1", system_prompt="Be kind.")
    write_agent(folder, SuiteAgent(agent_id="agent-1", account_id=ACCOUNT, version=3, settings=agent))
    suite = read_suite(folder)
    write_cases(suite.cases, given)
    return suite


def call(name: str, number: int = 1, **arguments: Any) -> AskedTool:
    """Of a round."""
    return AskedTool(round=number, name=name, input=arguments)


def make_result(
    case_id: str,
    before: Mapping[str, float] | None = None,
    after: Mapping[str, float] | None = None,
    *,
    outcome: CaseOutcome = "completed",
    texts: tuple[str, str] | None = None,
    **more: Any,
) -> CaseResult:
    """What a case came to; `texts` are the recorded reply and the new one."""
    figures = RunFigures(model="m", rounds=1, calls=0, tokens=100, cost=1.0, seconds=2.0)
    compared = None
    if texts is not None:
        compared = ComparedRun(
            conversation_id="v",
            trace_id=case_id,
            message="Where is my order?",
            recorded_end="completed",
            outcome="completed",
            code=None,
            detail=None,
            same_tools=True,
            same_answer=texts[0] == texts[1],
            alike=1.0,
            missed=(),
            sources_missed=False,
            recorded=figures,
            replayed=figures,
            before=RunOutput(content=texts[0], calls=()),
            after=RunOutput(content=texts[1], calls=()),
        )
    return CaseResult(
        case_id=case_id,
        outcome=outcome,
        before=before or {},
        after=after or {},
        compared=compared,
        **more,
    )
