"""The commands of `agentchat admin` as a table: the route of each, and how its arguments are given."""

from typing import Any

import msgspec


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """`arguments` are fields of the body that are positional, `without` those that cannot be given.

    `body` is a constant one. `help` replaces the route's summary. `from_file`: the body can be given as JSON.
    `files` are options of the query that name a file, whose text is sent. `most` is the default of
    `--limit`. `asks` is the question on a terminal before it runs. `at_version` is the route that is called
    with `--version`. `is_verdict`: exit code 1 says what was found, and 2 that nothing is known, so a
    failure is 2 too.
    """

    route: str
    help: str = ""
    arguments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    body: dict[str, Any] | None = None
    from_file: bool = False
    files: tuple[str, ...] = ()
    most: int | None = None
    asks: str = ""
    at_version: str = ""
    is_verdict: bool = False


class Group(msgspec.Struct, frozen=True):
    """A group of commands, by their names."""

    help: str
    commands: dict[str, Command]


def _switch(route: str, about: str) -> dict[str, Command]:
    return {
        "disable": Command(route=route, help=about, body={"disabled": True}),
        "enable": Command(route=route, help="Undo `disable`.", body={"disabled": False}),
    }


_ACCOUNT, _PLAN, _KEY = "/accounts/{account_id}", "/plans/{name}", "/keys/{key_id}"
_AGENT, _SERVERS = "/agents/{agent_id}", "/agents/{agent_id}/mcp_servers"
_AUTHORIZATION = f"{_SERVERS}/{{name}}/authorization"
_BASE = "/knowledge_bases/{knowledge_base_id}"
_ENDPOINT = "/webhook_endpoints/{endpoint_id}"

GROUPS: dict[str, Group] = {
    "accounts": Group(
        "Accounts: the owners of agents, keys and conversations.",
        {
            "create": Command(route="POST /accounts", arguments=("name",)),
            "list": Command(route="GET /accounts"),
            "show": Command(route=f"GET {_ACCOUNT}"),
            "change": Command(route=f"PATCH {_ACCOUNT}", help="Change it.", without=("disabled",)),
            **_switch(f"PATCH {_ACCOUNT}", "Refuse its keys from now on."),
            "delete": Command(route=f"DELETE {_ACCOUNT}"),
        },
    ),
    "plans": Group(
        "Plans: what an account may use. `none` for a number is no limit.",
        {
            "create": Command(route="POST /plans", arguments=("name",)),
            "list": Command(route="GET /plans"),
            "show": Command(route=f"GET {_PLAN}"),
            "change": Command(route=f"PATCH {_PLAN}"),
            "delete": Command(route=f"DELETE {_PLAN}"),
        },
    ),
    "keys": Group(
        "API keys. A key is shown once, when it is made, and only on stdout.",
        {
            "create": Command(
                route=f"POST {_ACCOUNT}/keys",
                help="Make a key. Only the key is on stdout, its id on stderr; --json has both.",
            ),
            "list": Command(route=f"GET {_ACCOUNT}/keys"),
            "show": Command(route=f"GET {_KEY}"),
            "rename": Command(
                route=f"PATCH {_KEY}", help="Rename a key.", arguments=("name",), without=("disabled",)
            ),
            **_switch(f"PATCH {_KEY}", "Refuse it from its next request on."),
            "rotate": Command(
                route=f"POST {_KEY}/rotate",
                asks="Rotate {key_id}? The old key fails at once.",
            ),
            "revoke": Command(route=f"DELETE {_KEY}"),
        },
    ),
    "agents": Group(
        "Agents. Each change makes a version; runs name the version that answered.",
        {
            "create": Command(route="POST /agents", from_file=True),
            "list": Command(route="GET /agents"),
            "show": Command(
                route=f"GET {_AGENT}",
                help="Show its configuration; of secrets only whether they are set.",
                at_version=f"GET {_AGENT}/versions/{{version}}",
            ),
            "change": Command(route=f"PATCH {_AGENT}", without=("disabled",), from_file=True),
            **_switch(f"PATCH {_AGENT}", "Let it accept no messages; its runs continue."),
            "versions": Command(route=f"GET {_AGENT}/versions"),
            "restore": Command(route=f"POST {_AGENT}/versions/{{version}}/restore"),
            "promote": Command(route=f"POST {_AGENT}/versions/{{version}}/promote"),
            "check": Command(route=f"POST {_AGENT}/check"),
            "say": Command(route=f"POST {_AGENT}/messages", arguments=("message",)),
            "delete": Command(route=f"DELETE {_AGENT}"),
        },
    ),
    "agents canary": Group(
        "Versions of an agent that share its conversations. `agents promote` ends it: on, or back.",
        {
            "compare": Command(
                route=f"GET {_AGENT}/canary",
                help="Compare two versions. Exit code 0: better or the same, 1: worse, 2: undecided.",
                files=("prices",),
                is_verdict=True,
            ),
            "set": Command(route=f"PUT {_AGENT}/canary"),
        },
    ),
    "agents mcp-servers": Group(
        "An agent's tool servers; each change makes a version of the agent.",
        {
            "list": Command(route=f"GET {_SERVERS}"),
            "add": Command(route=f"POST {_SERVERS}", arguments=("name", "url")),
            "change": Command(route=f"PATCH {_SERVERS}/{{name}}"),
            "remove": Command(route=f"DELETE {_SERVERS}/{{name}}"),
        },
    ),
    "agents mcp-servers authorization": Group(
        "How an agent is authorised at a tool server by OAuth 2.1.",
        {
            "set": Command(route=f"PUT {_AUTHORIZATION}", arguments=("grant",)),
            "show": Command(route=f"GET {_AUTHORIZATION}"),
            "link": Command(route=f"POST {_AUTHORIZATION}/link"),
            "delete": Command(route=f"DELETE {_AUTHORIZATION}"),
        },
    ),
    "knowledge": Group(
        "Knowledge bases, and the documents in them.",
        {
            "create": Command(route="POST /knowledge_bases", arguments=("account_id", "name")),
            "list": Command(route="GET /knowledge_bases"),
            "show": Command(route=f"GET {_BASE}"),
            "rename": Command(
                route=f"PATCH {_BASE}", help="Rename it.", arguments=("name",), without=("disabled",)
            ),
            **_switch(f"PATCH {_BASE}", "Let agents find nothing in it."),
            "delete": Command(route=f"DELETE {_BASE}"),
            "documents": Command(route=f"GET {_BASE}/documents"),
            "delete-document": Command(route=f"DELETE {_BASE}/documents/{{document_id}}"),
            "search": Command(route=f"GET {_BASE}/search"),
            "why": Command(route=f"GET {_BASE}/search/why"),
        },
    ),
    "approvals": Group(
        "Tool calls that wait for a person's approval, of all accounts.",
        {
            "list": Command(route="GET /approvals"),
            "show": Command(route="GET /approvals/{approval_id}"),
            "decide": Command(
                route="POST /approvals/{approval_id}/decision",
                help="Approve or deny one: approved or denied.",
                arguments=("decision",),
            ),
        },
    ),
    "webhooks": Group(
        "Webhook endpoints of all accounts; their accounts make and delete them, by the API.",
        {
            "list": Command(route="GET /webhook_endpoints"),
            "show": Command(route=f"GET {_ENDPOINT}"),
            **_switch(f"PATCH {_ENDPOINT}", "Send it nothing until it is enabled."),
            "deliveries": Command(route=f"GET {_ENDPOINT}/deliveries", most=20),
            "resend": Command(route=f"POST {_ENDPOINT}/deliveries/{{delivery_id}}/resend"),
        },
    ),
    "conversations": Group(
        "Conversations of all accounts; `agentchat replay show` shows one.",
        {
            "list": Command(route="GET /conversations", most=50),
            "search": Command(route="GET /conversations/search", most=20),
            "delete": Command(route="DELETE /conversations/{conversation_id}"),
            "cancel": Command(route="POST /conversations/{conversation_id}/cancel"),
            "deletions": Command(route="GET /conversations/deletions"),
        },
    ),
}
AUDIT = Command(route="GET /audit", most=50)
