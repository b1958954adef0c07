"""The commands of `agentchat admin`: each from its row in `admin_commands` and its route."""

import inspect
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import msgspec
import typer

from administration.admin_values import Deletion
from administration.route import Parameter, Route
from administration.routes import BY_NAME
from contracts.admin_errors import Use
from ops import printing
from ops.admin import input_files
from ops.admin.admin_commands import AUDIT, GROUPS, Command
from ops.admin.api import ask, every
from ops.admin.database_commands import reseal, usage
from ops.admin.fields import Field, Given, argument, body_of, fields_of, flag, option, read_file, read_object
from ops.admin.options import AsJson, DryRun, Force, Most, Yes, confirm, group
from ops.admin.printed_answers import show_answer
from ops.errors import SetupError, failures_as_unknown

_METAVARS = {"key_id": "KEY_ID", "knowledge_base_id": "KB"}
_KINDS: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
_FROM = "A JSON object with these fields; `-`: stdin. Options have priority."


def add(app: typer.Typer, name: str, command: Command, *, hidden: bool = False) -> None:
    """Make the command, with an option for each argument of its route and each field of its body."""
    route = BY_NAME[command.route]
    fields: list[Field] = []
    if route.body is not None and command.body is None:
        fields = fields_of(route.body, command.without, command.arguments)
    act = _deleted if route.gives is Deletion else _called

    def run(**given: Any) -> None:
        act(command, route, fields, given)

    parameters = _parameters(command, route, fields)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command(name, help=command.help or route.summary, hidden=hidden)(run)


def _parameters(command: Command, route: Route, fields: Sequence[Field]) -> list[inspect.Parameter]:
    """Arguments in the order of the path, of the body and of the query; then the options."""
    made = [_argument(each) for each in route.path_parameters]
    made += [each for field in fields for each in field.options]
    query = [each for each in route.query if each.argument != "after"]
    made += [
        _queried(each, is_file=each.argument in command.files)
        for each in query
        if each.argument not in _COMMON
    ]
    made += [_common(each.argument, *_COMMON[each.argument]) for each in query if each.argument in _COMMON]
    if command.at_version:
        made.append(
            option("version", int, "--version", min=1, help="An older version; else the current one.")
        )
    if command.from_file:
        made.append(option("from_", str, "--from", metavar="FILE", help=_FROM))
    if route.gives is Deletion or command.asks:
        made.append(_common("yes", Yes, False))
    return [*made, _common("as_json", AsJson, False)]


_COMMON: dict[str, tuple[Any, Any]] = {
    "limit": (Most, None),
    "force": (Force, False),
    "dry_run": (DryRun, False),
}


def _common(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _argument(parameter: Parameter) -> inspect.Parameter:
    name = parameter.argument
    metavar = _METAVARS.get(name, name.removesuffix("_id").upper())
    return argument(name, metavar, _KINDS[parameter.schema["type"]])


def _queried(parameter: Parameter, *, is_file: bool) -> inspect.Parameter:
    name = parameter.argument
    if parameter.required:
        return argument(name, name.upper())
    bounds = {"min": parameter.schema.get("minimum"), "max": parameter.schema.get("maximum")}
    kind = _KINDS[parameter.schema["type"]]
    metavar = "FILE" if is_file else None
    return option(name, kind, flag(name), help=parameter.description, metavar=metavar, **bounds)


def _called(command: Command, route: Route, fields: Sequence[Field], given: Given) -> None:
    if command.asks:
        confirm(command.asks.format(**given), yes=given["yes"])
    if given.get("version") is not None and command.at_version:
        route = BY_NAME[command.at_version]
    arguments = _arguments(route, given)
    arguments |= {name: read_file(arguments[name]) for name in command.files if name in arguments}
    if route.body is not None:
        arguments[route.body_argument] = _body(command, route, fields, given)
    with failures_as_unknown() if command.is_verdict else nullcontext():
        if route.many == "page":
            answer: Any = every(route.name, given["limit"] or command.most, **arguments)
        else:
            answer = ask(route.name, **arguments)
    if code := show_answer(route.gives, answer, json_too=given["as_json"]):
        sys.exit(code)


def _arguments(route: Route, given: Given) -> Given:
    """The parts of the path, and the given ones of the query."""
    names = [each.argument for each in (*route.path_parameters, *route.query)]
    found = {name: given.get(name) for name in names if name != "after" and name not in _COMMON}
    return {name: value for name, value in found.items() if value is not None}


def _body(command: Command, route: Route, fields: Sequence[Field], given: Given) -> Given:
    if command.body is not None:
        return command.body
    body = body_of(fields, given)
    if command.from_file:
        if body.get("output_type", "json") != "json" and route.method == "PATCH":
            body.setdefault("output_schema", None)
        path = given["from_"]
        body = ({} if path is None else read_object(read_file(path), "--from")) | body
    if not body and route.method == "PATCH":
        raise SetupError("nothing to change: give an option" + (", or --from" if command.from_file else ""))
    return body


def _deleted(_: Command, route: Route, _fields: Sequence[Field], given: Given) -> None:
    """Shows what would be deleted, asks on a terminal, deletes.

    Raises RefusedError where something would be orphaned without `--force`, and where the user says no.
    """

    def delete(*, dry_run: bool) -> Deletion | None:
        found: Deletion | None = ask(route.name, dry_run=dry_run, **flags, **_arguments(route, given))
        return found

    flags = {"force": given["force"]} if "force" in given else {}
    would_go = delete(dry_run=True)
    assert would_go is not None
    if not given["dry_run"]:
        if not would_go.needs_force and not given["as_json"]:
            confirm(f"{_verb(would_go).title()} {_named(would_go)}{_with(would_go)}?", yes=given["yes"])
        delete(dry_run=False)  # where force is needed, this is refused and names what is in the way
        would_go = msgspec.structs.replace(would_go, dry_run=False)
    if given["as_json"]:
        printing.as_json(would_go)
    else:
        _print(would_go)
    if would_go.needs_force:
        printing.note("this needs --force")


def _print(deletion: Deletion) -> None:
    outcome = f"would be {_verb(deletion)}d" if deletion.dry_run else f"is {_verb(deletion)}d"
    lines = [f"{_named(deletion)} {outcome}"]
    for prefix, uses in (("", deletion.goes), ("used by ", deletion.used_by)):
        for use in uses:
            lines += [f"  {prefix}{_counted(use)}", *(f"    {printing.cell(name)}" for name in use.names)]
            if 0 < len(use.names) < use.count:
                lines.append(f"    … and {use.count - len(use.names):,} more")
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _with(deletion: Deletion) -> str:
    """What is deleted with it, and what uses it."""
    goes = ", ".join(map(_counted, deletion.goes))
    used = ", ".join(map(_counted, deletion.used_by))
    return f"{f', with {goes}' if goes else ''}{f'; used by {used}' if used else ''}"


def _verb(deletion: Deletion) -> str:
    """A revoked key stays in the list."""
    return "revoke" if deletion.kind == "key" else "delete"


def _named(deletion: Deletion) -> str:
    return f"{deletion.kind} {printing.cell(deletion.id)}"


def _counted(use: Use) -> str:
    return f"{use.count:,} {use.kind.removesuffix('s') if use.count == 1 else use.kind}"


app = group("")


def _made_groups() -> dict[str, typer.Typer]:
    """A group for each of the table, within the one that its name begins with."""
    grown: dict[str, typer.Typer] = {}
    for name, row in GROUPS.items():
        grown[name] = made = group(row.help)
        within, _, last = name.rpartition(" ")
        grown.get(within, app).add_typer(made, name=last)
        for command_name, command in row.commands.items():
            add(made, command_name, command)
    return grown


_groups = _made_groups()
_groups["knowledge"].command("import")(input_files.import_)
_groups["knowledge"].command("embed")(input_files.embed)
add(_groups["knowledge"], "forget", GROUPS["knowledge"].commands["delete-document"], hidden=True)
secrets = group("Secrets that are stored encrypted: provider keys and the headers of tool servers.")
secrets.command()(reseal)
app.add_typer(secrets, name="secrets")
add(app, "audit", AUDIT)
app.command()(usage)
