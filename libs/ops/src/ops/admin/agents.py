"""`agentchat admin agents`."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.admin import mcp_servers
from ops.admin.options import AsJson, DryRun, Force, Most, Yes, given, group
from ops.errors import SetupError

if TYPE_CHECKING:
    from administration.values import Agent

app = group("Agents. Each change makes a version; runs name the version that answered.")
app.add_typer(mcp_servers.app, name="mcp-servers")

Id = Annotated[str, typer.Argument(metavar="AGENT", help="An agent's id.")]
_Account = Annotated[str | None, typer.Option(metavar="ACCOUNT", help="The account's id.")]
_Provider = Annotated[str | None, typer.Option(help="Whose model it is: anthropic if unset.")]
_Model = Annotated[str | None, typer.Option()]
_BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL|none", help="Where its model is, with a provider key of its own.")
]
_Prompt = Annotated[str | None, typer.Option(help="Its system prompt.")]
_PromptFile = Annotated[str | None, typer.Option(metavar="FILE", help="The same from a file; `-`: stdin.")]
_Parameters = Annotated[
    str | None, typer.Option(metavar="JSON", help="As the provider takes them, all together.")
]
_Rounds = Annotated[int | None, typer.Option(min=0, max=100)]
_OutputType = Annotated[str | None, typer.Option(metavar="text|markdown|json")]
_Schema = Annotated[str | None, typer.Option(metavar="FILE", help="JSON Schema of a json agent's replies.")]
_Interruption = Annotated[str | None, typer.Option(metavar="continue|fail")]
_Base = Annotated[str | None, typer.Option(metavar="KB|none", help="Where it looks before it answers.")]
_TopK = Annotated[int | None, typer.Option(min=1, max=50, help="How many passages it takes.")]
_KeyEnv = Annotated[str | None, typer.Option(metavar="VARIABLE", help="Variable with the provider key.")]
_KeyFile = Annotated[str | None, typer.Option(metavar="FILE", help="File with the provider key; `-`: stdin.")]
_AskKey = Annotated[bool, typer.Option("--ask-provider-key", help="Ask for the provider key, unseen.")]
_From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="FILE", help="A JSON object with these fields; `-`: stdin. Options go before."
    ),
]

_COLUMNS = {
    "ID": "id",
    "NAME": "name",
    "MODEL": "model",
    "VERSION": "version",
    "DISABLED": "disabled",
    "CHANGED": "changed_at",
    "ACCOUNT ID": "account_id",
}
_VERSIONS = {
    "VERSION": "version",
    "CURRENT": "current",
    "CREATED": "created_at",
    "NAME": "name",
    "MODEL": "model",
}


@app.command()
def create(
    account: _Account = None,
    name: Annotated[str | None, typer.Option()] = None,
    provider: _Provider = None,
    model: _Model = None,
    base_url: _BaseUrl = None,
    system_prompt: _Prompt = None,
    system_prompt_file: _PromptFile = None,
    parameters: _Parameters = None,
    max_tool_rounds: _Rounds = None,
    output_type: _OutputType = None,
    output_schema: _Schema = None,
    on_interruption: _Interruption = None,
    knowledge_base: _Base = None,
    top_k: _TopK = None,
    provider_key_env: _KeyEnv = None,
    provider_key_file: _KeyFile = None,
    ask_provider_key: _AskKey = False,
    own_id: Annotated[
        str | None, typer.Option("--id", help="A UUID of your own, for set-ups that are repeated.")
    ] = None,
    from_: _From = None,
    as_json: AsJson = False,
) -> None:
    """Make an agent, from options, from JSON, or from both.

    Its fields are those of the admin API. Tool servers can be in the JSON, or be added by `mcp-servers add`.
    Without a provider key it uses the service's own. Keys come from a variable, a file or a prompt: arguments
    can be seen by others.
    """
    from administration import agents
    from administration.reading import read_json
    from administration.values import NewAgent
    from ops.admin.show import thing
    from ops.admin.working import run

    fields = _read(from_) | given(
        account_id=account,
        id=own_id,
        **_options(
            name, provider, model, base_url, system_prompt, system_prompt_file, parameters,
            max_tool_rounds, output_type, output_schema, on_interruption, knowledge_base, top_k,
        ),
        provider_key=_key(provider_key_env, provider_key_file, ask_provider_key),
    )  # fmt: skip
    body = json.dumps(fields).encode()
    made = run(lambda admin: agents.create(admin, read_json(NewAgent, body)), seals=_holds_secrets(fields))
    thing(made, json_too=as_json)


@app.command("list")
def list_(account: _Account = None, limit: Most = None, as_json: AsJson = False) -> None:
    """List agents, those of one account or all."""
    from administration import agents
    from ops.admin.show import things
    from ops.admin.working import pages, run

    found = run(
        lambda admin: pages(lambda after, size: agents.page(admin, account, after=after, limit=size), limit)
    )
    things(found, _COLUMNS, json_too=as_json)


@app.command()
def show(
    agent: Id,
    version: Annotated[
        int | None, typer.Option(min=1, help="An older one; the current one if unset.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show its configuration; of secrets, that they are there."""
    from administration import agents
    from ops.admin.show import thing
    from ops.admin.working import run

    thing(run(lambda admin: agents.get(admin, agent, version)), json_too=as_json)


@app.command()
def change(
    agent: Id,
    name: Annotated[str | None, typer.Option()] = None,
    provider: _Provider = None,
    model: _Model = None,
    base_url: _BaseUrl = None,
    system_prompt: _Prompt = None,
    system_prompt_file: _PromptFile = None,
    parameters: _Parameters = None,
    max_tool_rounds: _Rounds = None,
    output_type: _OutputType = None,
    output_schema: _Schema = None,
    on_interruption: _Interruption = None,
    knowledge_base: _Base = None,
    top_k: _TopK = None,
    provider_key_env: _KeyEnv = None,
    provider_key_file: _KeyFile = None,
    ask_provider_key: _AskKey = False,
    no_provider_key: Annotated[
        bool, typer.Option("--no-provider-key", help="From now on use the service's own.")
    ] = False,
    from_: _From = None,
    as_json: AsJson = False,
) -> None:
    """Change what is given, in a new version; the rest stays. In JSON, null takes a field's value away."""
    from ops.admin.show import thing

    fields = _read(from_) | given(
        **_options(
            name, provider, model, base_url, system_prompt, system_prompt_file, parameters,
            max_tool_rounds, output_type, output_schema, on_interruption, knowledge_base, top_k,
        ),
        provider_key=_key(provider_key_env, provider_key_file, ask_provider_key),
    )  # fmt: skip
    if output_type is not None and output_type != "json":
        fields.setdefault("output_schema", None)
    if knowledge_base == "none":
        fields["retrieval"] = None
    if base_url == "none":
        fields["base_url"] = None
    if no_provider_key:
        fields["provider_key"] = None
    if not fields:
        raise SetupError("nothing to change: give an option, or --from")
    thing(_changed(agent, fields), json_too=as_json)


@app.command()
def disable(agent: Id, as_json: AsJson = False) -> None:
    """Let it take no messages; runs that have begun go on."""
    from ops.admin.show import thing

    thing(_changed(agent, {"disabled": True}), json_too=as_json)


@app.command()
def enable(agent: Id, as_json: AsJson = False) -> None:
    """Undo `disable`."""
    from ops.admin.show import thing

    thing(_changed(agent, {"disabled": False}), json_too=as_json)


@app.command()
def versions(agent: Id, limit: Most = None, as_json: AsJson = False) -> None:
    """List its versions, the newest first."""
    from administration import agents
    from ops.admin.show import things
    from ops.admin.working import pages, run

    found = run(
        lambda admin: pages(lambda after, size: agents.versions(admin, agent, after=after, limit=size), limit)
    )
    things(found, _VERSIONS, json_too=as_json)


@app.command()
def restore(agent: Id, version: Annotated[int, typer.Argument(min=1)], as_json: AsJson = False) -> None:
    """Make a new version with an old one's configuration and secrets."""
    from administration import agents
    from ops.admin.show import thing
    from ops.admin.working import run

    thing(run(lambda admin: agents.restore(admin, agent, version)), json_too=as_json)


@app.command()
def delete(
    agent: Id, force: Force = False, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete it with its versions. --force: also while it is at runs, which may fail, or has conversations.

    They stay: another agent may go on with them.
    """
    from administration import agents
    from ops.admin.removal import remove

    remove(
        lambda admin, dry: agents.delete(admin, agent, force=force, dry_run=dry),
        force=force,
        dry_run=dry_run,
        yes=yes,
        json_too=as_json,
    )


@app.command()
def check(agent: Id, as_json: AsJson = False) -> None:
    """Connect to its tool servers and to its provider, and say what works. Exit code 1 if not all does.

    It asks running services, and makes one small call of the model.
    """
    import msgspec

    from administration import agents
    from ops.admin import show
    from ops.admin.working import run

    found = run(lambda admin: agents.check(admin, agent), bus="needed")
    if as_json:
        show.as_json(msgspec.structs.asdict(found) | {"ok": found.ok})
    else:
        rows = [_told(server) for server in found.servers]
        provider = found.provider
        rows.append(["provider", provider.ok, "", f"{provider.ms} ms", provider.detail or provider.code])
        show.table(["WHAT", "WORKS", "TOOLS", "TOOK", "DETAIL"], rows)
    if not found.ok:
        sys.exit(1)


def _told(server: Any) -> list[Any]:
    tools = f"{server.allowed} of {server.tools}"
    missing = f"not there: {', '.join(server.missing)}" if server.missing else ""
    detail = "; ".join(part for part in (server.detail, missing) if part)
    return [f"tool server {server.name}", server.ok, tools, f"{server.ms} ms", detail]


def _changed(agent: str, fields: dict[str, Any]) -> "Agent":
    from administration import agents
    from administration.reading import read_json
    from administration.values import AgentChanges
    from ops.admin.working import run

    body = json.dumps(fields).encode()
    return run(
        lambda admin: agents.change(admin, agent, read_json(AgentChanges, body)), seals=_holds_secrets(fields)
    )


def _holds_secrets(fields: dict[str, Any]) -> bool:
    return bool(fields.get("provider_key") or fields.get("mcp_servers"))


def _options(
    name: str | None,
    provider: str | None,
    model: str | None,
    base_url: str | None,
    system_prompt: str | None,
    system_prompt_file: str | None,
    parameters: str | None,
    max_tool_rounds: int | None,
    output_type: str | None,
    output_schema: str | None,
    on_interruption: str | None,
    knowledge_base: str | None,
    top_k: int | None,
) -> dict[str, Any]:
    """The configuration's fields that were given."""
    from ops.admin.hidden import read_text

    if system_prompt_file is not None:
        if system_prompt is not None:
            raise SetupError("give the system prompt in one way")
        system_prompt = read_text(system_prompt_file)
    if top_k is not None and knowledge_base in (None, "none"):
        raise SetupError("--top-k needs --knowledge-base")
    retrieval = None
    if knowledge_base not in (None, "none"):
        retrieval = given(knowledge_base_id=knowledge_base, top_k=top_k)
    return given(
        name=name,
        provider=provider,
        model=model,
        base_url=None if base_url == "none" else base_url,
        system_prompt=system_prompt,
        parameters=None if parameters is None else _object(parameters, "--parameters"),
        max_tool_rounds=max_tool_rounds,
        output_type=output_type,
        output_schema=None if output_schema is None else _object(read_text(output_schema), output_schema),
        on_interruption=on_interruption,
        retrieval=retrieval,
    )


def _read(path: str | None) -> dict[str, Any]:
    from ops.admin.hidden import read_text

    return {} if path is None else _object(read_text(path), "--from")


def _object(text: str, named: str) -> dict[str, Any]:
    """Raises SetupError, without the text: it may hold secrets."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{named} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise SetupError(f"{named} must be a JSON object")
    return value


def _key(variable: str | None, file: str | None, ask: bool) -> str | None:
    from ops.admin.hidden import one

    return one(variable, file, ask=ask, question="Provider key")
