"""Cases of the recorded histories (tests/histories), and folders with a suite in them."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from contracts import events
from directory.agents import AgentSettings
from evals.case_file import writing_cases
from evals.cases import Case, Origin
from evals.suite import SETTINGS, Suite, SuiteAgent, read_suite, write_agent, write_file
from tests.conversations import recorded

RUNS = tuple(name for name in recorded.WHOLE if name != "erased")
"""The histories that hold a run."""


def history_case(name: str) -> Case:
    """The last run of a history that has ended."""
    found = recorded.carried(name)
    facts = recorded.facts(found)
    last = max(place for place, event in enumerate(facts) if isinstance(event, events.RunEnd))
    trace_id = facts[last].trace_id
    question = next(
        each
        for each in facts
        if isinstance(each, events.MessageSaved) and each.role == "user" and each.trace_id == trace_id
    )
    return Case(
        id=trace_id,
        origin=Origin(
            account_id=found.account_id,
            conversation_id=found.conversation_id,
            trace_id=trace_id,
            version=last + 1,
            hash="00" * 32,
        ),
        agent_id=question.agent_id,
        agent_version=1,
        message=question.content,
        events=tuple(msgspec.Raw(each.state) for each in found.stored[: last + 1]),
        slices={"end": "completed"},
    )


def made_suite(folder: Path, cases: Iterable[Case] = (), settings: str = "") -> Suite:
    """A suite with these cases; `settings` are added to `suite.yaml`."""
    folder.mkdir(exist_ok=True)
    write_file(folder / SETTINGS, f"agent: agent-1\naccount: account-1\n{settings}".encode())
    agent = AgentSettings(name="Shop", model="demo-shop-1", system_prompt="Be kind.")
    write_agent(folder, SuiteAgent(agent_id="agent-1", account_id="account-1", version=3, settings=agent))
    suite = read_suite(folder)
    with writing_cases(suite.cases) as file:
        for case in sorted(cases, key=lambda each: each.id):
            file.add(case)
    return suite
