"""The commands of `agentchat admin`."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer

from agentchat.administration.routes import ROUTES
from agentchat.ops import printing
from agentchat.ops.admin.admin_client import find_api
from agentchat.ops.admin.arguments import read_body, read_query
from agentchat.ops.admin.database_commands import embed, reseal, show_usage
from agentchat.ops.admin.import_command import import_
from agentchat.ops.admin.options import AsJson, Most, Yes, build_group, confirm
from agentchat.ops.errors import raise_failures_with_code_2

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE|@FILE", help="Query parameters, or fields of the body."),
]
AccountId = Annotated[str, typer.Argument(metavar="ACCOUNT")]
KeyId = Annotated[str, typer.Argument(metavar="KEY_ID")]
AgentId = Annotated[str, typer.Argument(metavar="AGENT")]
Account = Annotated[str | None, typer.Option(metavar="ACCOUNT", help="Only of this account.")]

_VERDICTS = {"better": 0, "same": 0, "worse": 1, "undecided": 2}
"""Exit codes of a comparison of versions."""

app = build_group("")
accounts = build_group("Accounts: the owners of agents, keys and conversations.")
keys = build_group("API keys. A key is shown once, when it is created, and only on stdout.")
agents = build_group("Agents. Each change makes a new version; a run names the version that answered.")
tokens = build_group("Named tokens of administrators. A token is shown once, when it is created.")
knowledge = build_group("Knowledge bases: import files, embed passages.")
secrets = build_group("Secrets that are stored encrypted: provider keys and the headers of tool servers.")
for name, subgroup in (
    ("accounts", accounts),
    ("keys", keys),
    ("agents", agents),
    ("tokens", tokens),
    ("knowledge", knowledge),
    ("secrets", secrets),
):
    app.add_typer(subgroup, name=name)
knowledge.command("import")(import_)
knowledge.command("embed")(embed)
secrets.command("reseal")(reseal)
app.command("usage")(show_usage)


def _build_command(method: str) -> Callable[..., None]:
    def command(
        path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /accounts.")],
        words: Words = None,
        yes: Yes = False,
        as_json: AsJson = False,
    ) -> None:
        query, body = (read_query(words or ()), None) if method in ("GET", "DELETE") else ({}, None)
        if method not in ("GET", "DELETE") and words:
            body = read_body(words)
        api, path = find_api(), f"/{path.removeprefix('/')}"
        if method == "DELETE" and sys.stdin.isatty() and not yes and "dry_run" not in query:
            show(api.call(method, path, query=query | {"dry_run": "true"}), as_json=False)
            confirm(f"Delete {path}?", yes=False)
        with _separate_verdict_from_failure(path):
            answer = api.call(method, path, query=query, body=body)
        if code := show(answer, as_json=as_json):
            sys.exit(code)

    return command


@contextlib.contextmanager
def _separate_verdict_from_failure(path: str) -> Iterator[None]:
    """Give failures of a comparison exit code 2: exit code 1 is a verdict."""
    with raise_failures_with_code_2() if path.endswith("/canary") else contextlib.nullcontext():
        yield


for http_method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    app.command(
        http_method, help=f"Call a {http_method} route of the admin API (`admin routes` lists them)."
    )(_build_command(http_method))


@app.command()
def routes() -> None:
    """List the routes of the admin API."""
    printing.print_table(
        ["METHOD", "PATH", "SUMMARY"], [(each.method, each.path, each.summary) for each in ROUTES]
    )


@accounts.command("create")
def create_account(
    name: Annotated[str, typer.Argument()],
    plan: Annotated[str | None, typer.Option(help="Unlimited if unset.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create an account."""
    body = {"name": name} | ({} if plan is None else {"plan": plan})
    show(find_api().call("POST", "/accounts", body=body), as_json=as_json)


@accounts.command("list")
def list_accounts(limit: Most = None, as_json: AsJson = False) -> None:
    """List accounts."""
    show(find_api().list_all("/accounts", limit), as_json=as_json)


@keys.command("create")
def create_key(
    account: AccountId,
    name: Annotated[str | None, typer.Option(help="What the key is for.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. The key is printed on stdout, its id on stderr; --json prints both."""
    body = {} if name is None else {"name": name}
    _show_key(find_api().call("POST", f"/accounts/{account}/keys", body=body), as_json=as_json)


@keys.command("list")
def list_keys(account: AccountId, as_json: AsJson = False) -> None:
    """List the keys of an account."""
    show(find_api().list_all(f"/accounts/{account}/keys"), as_json=as_json)


@keys.command("rotate")
def rotate_key(
    key_id: KeyId,
    overlap: Annotated[
        int, typer.Option("--overlap-seconds", min=0, help="How long the old key works on, at most 604800.")
    ] = 0,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Replace a key by a new one. The old key fails at once, or after --overlap-seconds."""
    end = f"after {overlap} seconds" if overlap else "at once"
    confirm(f"Rotate {key_id}? The old key fails {end}.", yes=yes)
    body = {"overlap_seconds": overlap}
    _show_key(find_api().call("POST", f"/keys/{key_id}/rotate", body=body), as_json=as_json)


@keys.command("revoke")
def revoke_key(key_id: KeyId, yes: Yes = False) -> None:
    """Revoke a key for good."""
    confirm(f"Revoke {key_id}?", yes=yes)
    find_api().call("DELETE", f"/keys/{key_id}")
    printing.print_note(f"key {key_id} is revoked")


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Who uses it: the audit log has this name.")],
    role: Annotated[str, typer.Option(help="viewer, approver, operator or owner.")],
    account: Annotated[
        list[str] | None, typer.Option(metavar="ACCOUNT", help="Limit it to this account; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token. The token is printed on stdout; --json prints all of it."""
    body = {"name": name, "role": role} | ({"account_ids": account} if account else {})
    issued = find_api().call("POST", "/tokens", body=body)
    if as_json:
        printing.print_json(issued)
        return
    printing.print_note(f"token {name} with the role {role}; it will not be shown again:")
    sys.stdout.write(f"{issued['token']}\n")


@tokens.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List tokens by name, revoked ones too, with the accounts that each is limited to."""
    listed = find_api().list_all("/tokens")
    if not as_json:
        for each in listed:
            each["accounts"] = ", ".join(each.pop("account_ids") or ("all",))
    show(listed, as_json=as_json)


@tokens.command("revoke")
def revoke_token(name: Annotated[str, typer.Argument()], yes: Yes = False) -> None:
    """Revoke a token for good; its sessions in the console end."""
    confirm(f"Revoke {name}?", yes=yes)
    find_api().call("DELETE", f"/tokens/{quote(name, safe='')}")
    printing.print_note(f"token {name} is revoked")


_AGENT_FIELDS = ("id", "name", "account_id", "provider", "model", "version", "disabled", "changed_at")


@agents.command("list")
def list_agents(account: Account = None, limit: Most = None, as_json: AsJson = False) -> None:
    """List agents, with their most used fields; --json has all."""
    listed = find_api().list_all("/agents", limit, account_id=account)
    if not as_json:
        listed = [{name: each[name] for name in _AGENT_FIELDS} for each in listed]
    show(listed, as_json=as_json)


@agents.command("show")
def show_agent(
    agent: AgentId,
    version: Annotated[int | None, typer.Option(min=1, help="An older version.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show an agent's configuration; for secrets, only if they are set."""
    older = "" if version is None else f"/versions/{version}"
    show(find_api().call("GET", f"/agents/{agent}{older}"), as_json=as_json)


@agents.command("create")
def create_agent(words: Words = None, as_json: AsJson = False) -> None:
    """Create an agent: `agents create @agent.json account_id=ID provider_key=@env:KEY`."""
    show(find_api().call("POST", "/agents", body=read_body(words or ())), as_json=as_json)


@agents.command("change")
def change_agent(agent: AgentId, words: Words = None, as_json: AsJson = False) -> None:
    """Change an agent (a new version): `agents change ID model=demo-echo system_prompt=@file:prompt.txt`."""
    show(find_api().call("PATCH", f"/agents/{agent}", body=read_body(words or ())), as_json=as_json)


@agents.command("check")
def check_agent(agent: AgentId, as_json: AsJson = False) -> None:
    """Check an agent's model, fall-backs and tool servers. Exit code 1 if one of them fails."""
    found = find_api().call("POST", f"/agents/{agent}/check")
    models = [found["provider"], *found["fallbacks"]]
    works = all(each["ok"] for each in [*models, *found["servers"]])
    if as_json:
        printing.print_json(found | {"ok": works})
    else:
        show(models, as_json=False)
        show(found["servers"], as_json=False)
    sys.exit(0 if works else 1)


def _build_retention_command(kind: str) -> Callable[..., None]:
    def command(
        name: Annotated[str, typer.Argument(metavar="ID")],
        days: Annotated[
            int | None, typer.Option(min=1, help="Count with this number of days instead.")
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        """Count the conversations that are past their retention. Nothing changes."""
        found = find_api().call("GET", f"/{kind}/{name}/retention", query={"retention_days": days})
        show(found, as_json=as_json)

    return command


for kind, owners in (("accounts", accounts), ("agents", agents)):
    owners.command("retention")(_build_retention_command(kind))


def show(answer: Any, *, as_json: bool) -> int:
    """Print an answer of the API. Return the exit code of a comparison's verdict, else 0."""
    listed = answer["data"] if isinstance(answer, dict) and isinstance(answer.get("data"), list) else answer
    if isinstance(answer, str):
        sys.stdout.write(answer)
    elif as_json:
        printing.print_json(answer)
    elif isinstance(listed, list):
        printing.print_rows(listed)
        if isinstance(answer, dict) and answer.get("next_cursor"):
            printing.print_note(f"more items follow: add cursor={answer['next_cursor']}")
    elif listed is not None:
        printing.print_record(listed)
    decision = answer.get("decision") if isinstance(answer, dict) else None
    return _VERDICTS.get(decision, 0) if isinstance(decision, str) else 0


def _show_key(issued: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        printing.print_json(issued)
        return
    printing.print_note(f"key {issued['id']} of account {issued['account_id']}; it will not be shown again:")
    sys.stdout.write(f"{issued['key']}\n")
    sys.stdout.flush()
