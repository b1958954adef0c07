"""Read runs from the log as cases, redacted."""

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace

from agentchat.bus.commands import list_tools
from agentchat.bus.rpc import Rpc
from agentchat.contracts import events
from agentchat.contracts.values import ToolSpec
from agentchat.conversations.aggregate.conversation import Run, fold
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.event_log import Log, LogEntry, run_in_thread_if_large
from agentchat.directory.agent_config import AgentConfig, AgentSettings, load_agent
from agentchat.evals.case_redaction import CaseRedactor
from agentchat.evals.case_sampling import describe_slices
from agentchat.evals.cases import MOST_BYTES, Case, encode_case
from agentchat.evals.errors import DependsOnFiles, NotACase, SuiteError, ToolsNotListed
from agentchat.evals.redaction_rules import RedactionRule
from agentchat.evals.suite import SuiteAgent, parse_settings, render_settings
from agentchat.knowledge.search.passage_search import load_passages
from agentchat.runtime.postgres import Pool


async def load_suite_agent(
    pool: Pool, account_id: str, agent_id: str, version: int | None = None
) -> SuiteAgent:
    """Load an agent's current or named version without secrets.

    Left out are its key, the headers of its tool servers, and their URLs' queries. Raises SuiteError if there
    is no such agent, DatabaseUnavailable.
    """
    found = await load_agent(pool, account_id, agent_id, version)
    if found is None:
        state = "or it is disabled" if version is None else f"or no version {version} of it"
        raise SuiteError(f"account {account_id} has no agent {agent_id}, {state}")
    fields = {name: getattr(found, name) for name in AgentSettings.__struct_fields__}
    servers = tuple(replace(server, headers={}, url=_strip_query(server.url)) for server in found.mcp_servers)
    settings = AgentSettings(**fields | {"mcp_servers": servers})
    return SuiteAgent(
        agent_id=found.agent_id, account_id=found.account_id, version=found.version, settings=settings
    )


async def read_case_line(
    pool: Pool, rpc: Rpc | None, run: Run, account_id: str, conversation_id: str
) -> bytes:
    """Return a run as a line of `cases.jsonl`, redacted by the rules of a new suite for its agent.

    Raises SuiteError, BusUnavailable, DatabaseUnavailable.
    """
    agent = await load_suite_agent(pool, account_id, run.agent_id)
    rules = parse_settings(render_settings(run.agent_id, account_id)).redact
    reader = CaseReader(pool, rpc, agent, rules)
    return encode_case(await reader.read(conversation_id, run.trace_id))


class CaseReader:
    """Reads runs of the agent's account as cases.

    A tool-runner lists the tools of each version of an agent once. A run whose agent no longer exists gets
    the tools of `agent`.
    """

    def __init__(
        self, pool: Pool, rpc: Rpc | None, agent: SuiteAgent, rules: Sequence[RedactionRule]
    ) -> None:
        """Raises UnfitSuite, with the rule that is wrong."""
        self._redactor = CaseRedactor(rules)
        self._pool = pool
        self._log = Log(pool)
        self._rpc = rpc
        self._agent = agent
        self._agents: dict[tuple[str, int], tuple[AgentConfig | None, tuple[ToolSpec, ...]]] = {}

    async def read(self, conversation_id: str, trace_id: str) -> Case:
        """Read one run. Raises NotACase, ToolsNotListed, BusUnavailable, DatabaseUnavailable."""
        entries = await self._log.read_rows(conversation_id)
        if not entries:
            raise NotACase(trace_id, "its conversation was erased")
        if sum(len(entry.state) for entry in entries) > MOST_BYTES:
            raise NotACase(trace_id, "its conversation is too large for a case")
        try:
            conversation = await run_in_thread_if_large(
                lambda page: fold(conversation_id, [entry.event for entry in page]), entries
            )
        except UnreadableEvent as error:
            raise NotACase(trace_id, f"its conversation cannot be read: {error}") from None
        run, end = conversation.run(trace_id), _find_end(entries, trace_id)
        if conversation.account_id != self._agent.account_id:
            raise NotACase(trace_id, "it is another account's")
        if run is None or end is None:
            raise NotACase(trace_id, "it has not ended")
        if any(has_files(entry.state) for entry in entries[:end]):
            raise DependsOnFiles(trace_id)
        config, offered = await self._load_agent(run)
        case = Case(
            id=trace_id,
            account_id=self._agent.account_id,
            conversation_id=conversation_id,
            agent_id=run.agent_id,
            agent_version=run.agent_version,
            message=run.user_text,
            events=tuple(msgspec.Raw(entry.state) for entry in entries[:end]),
            passages=await self._load_passages(config, run),
            offered=offered,
            slices=describe_slices(conversation, run),
            feedback=run.rating,
        )
        return await asyncio.to_thread(self._redactor.redact_case, case)

    def redact_again(self, case: Case) -> Case:
        """Redact an existing case by rules that may be newer.

        Raises NotACase; DependsOnFiles for a case with files, as earlier releases collected them.
        """
        found = self._redactor.redact_case(case)
        if any(has_files(bytes(each)) for each in case.events):
            raise DependsOnFiles(case.id)
        return replace(found, redacted=tuple(dict.fromkeys((*case.redacted, *found.redacted))))

    async def _load_passages(self, config: AgentConfig | None, run: Run) -> Mapping[str, str]:
        """Load the full texts; a source that no longer exists has its snippet."""
        if not run.sources:
            return {}
        if config is None or config.retrieval is None:
            return {source.id: source.snippet for source in run.sources}
        base = config.retrieval.knowledge_base_id
        found = await load_passages(self._pool, self._agent.account_id, base, run.sources)
        return {passage.source.id: passage.text for passage in found}

    async def _load_agent(self, run: Run) -> tuple[AgentConfig | None, tuple[ToolSpec, ...]]:
        place = (run.agent_id, run.agent_version)
        if place not in self._agents:
            config = await load_agent(self._pool, self._agent.account_id, *place)
            self._agents[place] = config, await self._list_tools(config)
        return self._agents[place]

    async def _list_tools(self, config: AgentConfig | None) -> tuple[ToolSpec, ...]:
        settings = config or self._agent.settings
        if all(server.disabled for server in settings.mcp_servers):
            return ()
        if self._rpc is None:
            raise ToolsNotListed(f"cannot list the tools of agent {settings.name} without NATS")
        known = config or self._agent
        listed = await list_tools(self._rpc, self._agent.account_id, known.agent_id, known.version)
        if listed.unavailable:
            missing = ", ".join(f"{each.server}: {each.reason}" for each in listed.unavailable)
            raise ToolsNotListed(f"the tools of agent {settings.name} cannot be listed ({missing})")
        return listed.tools


def _find_end(entries: Sequence[LogEntry], trace_id: str) -> int | None:
    """Count the events up to the run's end."""
    for count, entry in enumerate(entries, start=1):
        if isinstance(entry.event, events.RunEnd) and entry.event.trace_id == trace_id:
            return count
    return None


def _strip_query(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(query="", fragment=""))


def has_files(state: bytes) -> bool:
    """Return True if a message or a tool's result of the stored event has files."""
    match mapper.decode_event(state) if b'"file_id"' in state else None:
        case events.MessageSaved() as event:
            return bool(event.attachments)
        case events.MessageReceived() as event:
            return bool(event.message.attachments)
        case events.ToolReturned() as event:
            return bool(event.files)
        case events.ConversationSeeded() as event:
            return any(message.attachments for message in event.messages)
        case _:
            return False
