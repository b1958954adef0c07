"""Accounts that have one thing of each kind, to try who sees what."""

import re

from msgspec.structs import replace

from agentchat.administration import Admin, admin_accounts, admin_agents, admin_documents, admin_keys
from agentchat.administration import admin_knowledge as bases
from agentchat.administration.admin_values import NewAccount, NewAgent, NewDocument, NewKnowledgeBase
from agentchat.administration.key_values import NewKey
from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.contracts.webhooks import NewEndpoint
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.webhooks import endpoints
from tests.conversations.given import (
    build_conversation_started,
    build_held_call,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.read_models import Storage

UNKNOWN = "019a0000-0000-7000-8000-00000000dead"


class Tenant:
    """An account; `ids` are by the names of the parameters of routes, and all its texts have its `name`."""

    def __init__(self, name: str, ids: dict[str, str]) -> None:
        self.name, self.ids = name, ids

    @property
    def marks(self) -> set[str]:
        """What only somebody who may see the account can know."""
        return {self.name, *self.ids.values()}

    def fill(self, path: str) -> str:
        """The path with its ids; what is not of an account stays unknown."""
        ids = {"version": "1"} | self.ids
        return re.sub(r"{(\w+)}", lambda found: ids.get(found[1], UNKNOWN), path)


def fill_unknown(path: str) -> str:
    ids = {"version": "1", "trace_id": "f" * 32}
    return re.sub(r"{(\w+)}", lambda found: ids.get(found[1], UNKNOWN), path)


async def make_tenant(admin: Admin, storage: Storage, name: str) -> Tenant:
    """Everything named `name`, with a conversation that is answered and a run that waits for approval."""
    account = (await admin_accounts.create(admin, NewAccount(name=name, plan="Pro"))).id
    agent = (await admin_agents.create(admin, NewAgent(account_id=account, name=name, model="m-1"))).id
    base = (await bases.create(admin, NewKnowledgeBase(account_id=account, name=name))).id
    put = await admin_documents.put(admin, base, NewDocument(name=name, text=f"Of {name}."))
    endpoint = await endpoints.create_endpoint(
        admin.pool, admin.sealer, account, NewEndpoint(url="https://x.example", events=("run.completed",))
    )
    approval_id, waits = make_id(), f"{name}-waits"
    stored = [
        replace(build_conversation_started(), account_id=account),
        *turn(name, f"I am {name}", f"Hello {name}"),
        *(build_user_message(waits), build_run_started(waits), *build_held_call(waits)[:-1]),
    ]
    own = [
        replace(event, agent_id=agent, approval_id=approval_id)
        if isinstance(event, events.ApprovalRequested)
        else replace(event, agent_id=agent)
        if isinstance(event, events.MessageSaved) and event.role == "user"
        else event
        for event in stored
    ]
    talked = await storage.store.append(Conversation(conversation_id=make_id()), own)
    await storage.follow()
    return Tenant(
        name,
        {
            "account_id": account,
            "agent_id": agent,
            "key_id": (await admin_keys.create(admin, account, NewKey(name=name))).id,
            "knowledge_base_id": base,
            "base_id": base,
            "document_id": put.document.id,
            "endpoint_id": endpoint.id,
            "conversation_id": talked.conversation_id,
            "approval_id": approval_id,
            "trace_id": trace(name),
        },
    )
