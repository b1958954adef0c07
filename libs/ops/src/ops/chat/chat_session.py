"""The state of one chat: the service and its agents, thread, form, and the last reply's tools.

The service's address comes from options, the environment or a running stack.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentchat_client import AsyncAgentChat, Conversation, Source, ToolRun
from agentchat_client.api_calls import Form
from ops import environment
from ops.environment import Environment, given
from ops.errors import SetupError

BASE_URL = "AGENTCHAT_BASE_URL"
API_KEY = "AGENTCHAT_API_KEY"
AGENT_ID = "AGENTCHAT_AGENT_ID"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ChatAgent:
    """An agent and the key for it. `sources`: it is known to search a knowledge base."""

    name: str
    agent_id: str
    api_key: str = field(repr=False)
    sources: bool = False


def find(base_url: str | None, agent: str | None, environ: Mapping[str, str]) -> "Session":
    """Options have priority over the environment, and that over the stack in AGENTCHAT_RUN_DIR.

    Keys come from the environment alone: an argument would show in the list of processes. A key is never
    taken from a stack for another address. Raises SetupError, NotRunningError.
    """
    address = base_url or given(environ, BASE_URL)
    api_key = given(environ, API_KEY)
    wanted = agent or given(environ, AGENT_ID)
    if address is None:
        elsewhere = f"; for another service set {BASE_URL} and {API_KEY}"
        stack = environment.load(environment.run_folder(environ), elsewhere=elsewhere)
        address = stack.base_url
        agents = [known for known in _demo(stack) if api_key in (None, known.api_key)]
        folder = environment.run_folder(environ).path
        api_key = api_key or stack.api_key
    else:
        if api_key is None:
            raise SetupError(f"set {API_KEY} to a key of the service at {address}")
        agents, folder = [], _state_folder(environ)
    if wanted is None and not agents:
        raise SetupError(f"no agent: give --agent, or set {AGENT_ID}")
    first = agents[0] if wanted is None else choose(wanted, agents, api_key)
    if first not in agents:
        agents.append(first)
    return Session(base_url=address, agents=agents, agent=first, folder=folder)


def choose(wanted: str, agents: list[ChatAgent], api_key: str) -> ChatAgent:
    """By name, by id, or a new id, which is used with `api_key`. Raises SetupError."""
    for agent in agents:
        if wanted.lower() in (agent.name, agent.agent_id):
            return agent
    if _UUID.fullmatch(wanted):
        return ChatAgent(name=wanted.lower(), agent_id=wanted.lower(), api_key=api_key)
    names = ", ".join(agent.name for agent in agents)
    raise SetupError(f"no agent {wanted!r}: give its id" + (f", or one of {names}" if names else ""))


def _demo(stack: Environment) -> list[ChatAgent]:
    return [
        ChatAgent(name="shop", agent_id=stack.agent_id, api_key=stack.api_key),
        ChatAgent(name="policies", agent_id=stack.retrieval_agent_id, api_key=stack.api_key, sources=True),
        ChatAgent(name="openai", agent_id=stack.openai_agent_id, api_key=stack.api_key),
        ChatAgent(name="starter", agent_id=stack.starter_agent_id, api_key=stack.starter_api_key),
        ChatAgent(name="load", agent_id=stack.load_agent_id, api_key=stack.load_api_key),
    ]


def _state_folder(environ: Mapping[str, str]) -> Path:
    """By the XDG base directories."""
    state = environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "agentchat"


@dataclass(kw_only=True)
class Session:
    """The service's address, the known agents and the one in use, its thread, and the folder of the history.

    It has a client for each key; close it at the end.
    """

    base_url: str
    folder: Path
    agents: list[ChatAgent]
    agent: ChatAgent
    chosen_form: Form | None = None
    conversation_id: str | None = None
    max_retries: int = 2
    title: str | None = None
    listed: tuple[Conversation, ...] = ()
    tools: tuple[ToolRun, ...] = ()
    sources: tuple[Source, ...] = ()
    _clients: dict[str, AsyncAgentChat] = field(default_factory=dict)
    _without_form_2: set[str] = field(default_factory=set)

    @property
    def client(self) -> AsyncAgentChat:
        """For the agent's key. Raises Misconfigured."""
        key = self.agent.api_key
        if key not in self._clients:
            self._clients[key] = AsyncAgentChat(
                key, base_url=self.base_url, agent_id="", max_retries=self.max_retries
            )
        return self._clients[key]

    @property
    def form(self) -> Form:
        """The chosen one; else 2, which shows tools, or 1 with sources or a plan without form 2."""
        if self.chosen_form is not None:
            return self.chosen_form
        return 1 if self.agent.sources or self.agent.api_key in self._without_form_2 else 2

    def plan_lacks_form_2(self) -> None:
        """The service has refused form 2; from now on form 1 is the default with this key."""
        self._without_form_2.add(self.agent.api_key)

    def begin_thread(self) -> None:
        """The next message begins a new one."""
        self.conversation_id = None
        self.title = None
        self.tools = ()
        self.sources = ()

    def resume(self, thread: Conversation) -> None:
        self.begin_thread()
        self.conversation_id = thread.conversation_id
        self.title = thread.title

    def use(self, wanted: str) -> bool:
        """Select another agent, by name or id; whether that ends the thread: it belongs to one account.

        Raises SetupError.
        """
        agent = choose(wanted, self.agents, self.agent.api_key)
        if agent not in self.agents:
            self.agents.append(agent)
        another = agent.api_key != self.agent.api_key
        self.agent = agent
        if another:
            self.listed = ()
            self.begin_thread()
        return another

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
