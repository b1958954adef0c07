"""What one talk at the terminal is about: the agent, the thread, the form, and what the last reply left."""

from agentchat_client import AsyncAgentChat, Conversation, Source, ToolRun
from agentchat_client.calls import Form
from ops.chat.target import Agent, Target, choose


class Session:
    """One client for each key; close it at the end."""

    def __init__(self, target: Target, form: Form | None = None, conversation_id: str | None = None) -> None:
        self.base_url = target.base_url
        self.agents = list(target.agents)
        self.agent = target.agent
        self.wished_form = form
        self.conversation_id = conversation_id
        self.title: str | None = None
        self.listed: tuple[Conversation, ...] = ()
        self.tools: tuple[ToolRun, ...] = ()
        self.sources: tuple[Source, ...] = ()
        self._clients: dict[str, AsyncAgentChat] = {}
        self._without_form_2: set[str] = set()

    @property
    def client(self) -> AsyncAgentChat:
        """For the agent's key. Raises Misconfigured. Nothing is tried again: whoever is there can do that."""
        key = self.agent.api_key
        if key not in self._clients:
            self._clients[key] = AsyncAgentChat(key, base_url=self.base_url, agent_id="", max_retries=0)
        return self._clients[key]

    @property
    def form(self) -> Form:
        """The one wished for; else 2, which shows tools, but 1 where there are sources or no plan for 2."""
        if self.wished_form is not None:
            return self.wished_form
        return 1 if self.agent.sources or self.agent.api_key in self._without_form_2 else 2

    def plan_lacks_form_2(self) -> None:
        """The service said so; from now on form 1 is the default with this key."""
        self._without_form_2.add(self.agent.api_key)

    def begin_thread(self) -> None:
        """The next message begins a new one."""
        self.conversation_id = None
        self.title = None
        self.tools = ()
        self.sources = ()

    def resume(self, thread: Conversation) -> None:
        """Go on with it."""
        self.begin_thread()
        self.conversation_id = thread.conversation_id
        self.title = thread.title

    def use(self, wanted: str) -> bool:
        """Ask another agent, by name or id; whether that ends the thread: it belongs to one account.

        Raises SetupError.
        """
        agent = choose(wanted, self.agents, self.agent.api_key)
        if agent not in self.agents:
            self.agents.append(agent)
        return self._switch(agent)

    def _switch(self, agent: Agent) -> bool:
        another = agent.api_key != self.agent.api_key
        self.agent = agent
        if another:
            self.listed = ()
            self.begin_thread()
        return another

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
