"""`agentchat admin plans`."""

from typing import Annotated, Any

import typer

from ops.admin.options import AsJson, DryRun, Most, Yes, group, number_or_none

app = group("Plans: what an account may use. A number that is `none` is no limit.")

Name = Annotated[str, typer.Argument(metavar="PLAN", help="A plan's name.")]
_Number = Annotated[str | None, typer.Option(metavar="N|none")]
_Streaming = Annotated[bool | None, typer.Option("--form2-streaming/--no-form2-streaming")]
_COLUMNS = {
    "NAME": "name",
    "REQUESTS/MIN": "requests_per_minute",
    "RUNS AT ONCE": "concurrent_runs",
    "TOKENS/MONTH": "tokens_per_month",
    "FORM 2": "form2_streaming",
    "MESSAGE BYTES": "max_message_bytes",
}


@app.command()
def create(
    name: Name,
    requests_per_minute: _Number = None,
    concurrent_runs: _Number = None,
    tokens_per_month: _Number = None,
    max_message_bytes: _Number = None,
    form2_streaming: _Streaming = None,
    as_json: AsJson = False,
) -> None:
    """Make a plan; numbers that are not given are no limit."""
    from administration import plans
    from administration.values import NewPlan
    from ops.admin.show import thing
    from ops.admin.working import run

    new = NewPlan(
        name=name,
        **_fields(requests_per_minute, concurrent_runs, tokens_per_month, max_message_bytes, form2_streaming),
    )
    thing(run(lambda admin: plans.create(admin, new)), json_too=as_json)


@app.command("list")
def list_(limit: Most = None, as_json: AsJson = False) -> None:
    """List plans."""
    from administration import plans
    from ops.admin.show import things
    from ops.admin.working import pages, run

    found = run(lambda admin: pages(lambda after, size: plans.page(admin, after=after, limit=size), limit))
    things(found, _COLUMNS, json_too=as_json)


@app.command()
def show(plan: Name, as_json: AsJson = False) -> None:
    """Show one."""
    from administration import plans
    from ops.admin.show import thing
    from ops.admin.working import run

    thing(run(lambda admin: plans.get(admin, plan)), json_too=as_json)


@app.command()
def change(
    plan: Name,
    requests_per_minute: _Number = None,
    concurrent_runs: _Number = None,
    tokens_per_month: _Number = None,
    max_message_bytes: _Number = None,
    form2_streaming: _Streaming = None,
    as_json: AsJson = False,
) -> None:
    """Change the numbers that are given; they count from the next request on."""
    from administration import plans
    from administration.values import PlanChanges
    from ops.admin.show import thing
    from ops.admin.working import run

    changes = PlanChanges(
        **_fields(requests_per_minute, concurrent_runs, tokens_per_month, max_message_bytes, form2_streaming)
    )
    thing(run(lambda admin: plans.change(admin, plan, changes)), json_too=as_json)


@app.command()
def delete(plan: Name, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a plan that no account is on."""
    from administration import plans
    from ops.admin.removal import remove

    remove(
        lambda admin, dry: plans.delete(admin, plan, dry_run=dry),
        dry_run=dry_run,
        yes=yes,
        json_too=as_json,
    )


def _fields(
    requests_per_minute: str | None,
    concurrent_runs: str | None,
    tokens_per_month: str | None,
    max_message_bytes: str | None,
    form2_streaming: bool | None,
) -> dict[str, Any]:
    """Those that were given."""
    numbers = {
        "requests_per_minute": requests_per_minute,
        "concurrent_runs": concurrent_runs,
        "tokens_per_month": tokens_per_month,
        "max_message_bytes": max_message_bytes,
    }
    fields = {name: number_or_none(text) for name, text in numbers.items() if text is not None}
    return fields if form2_streaming is None else fields | {"form2_streaming": form2_streaming}
