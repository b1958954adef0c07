"""`agentchat admin conversations`."""

from typing import Annotated

import typer

from ops.admin.options import AsJson, DryRun, Yes, group

app = group("Conversations. What is in them is their account's; see `agentchat chat` to read one's own.")


@app.callback()
def callback() -> None:
    """Conversations. What is in them is their account's; see `agentchat chat` to read one's own."""


@app.command()
def delete(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="A conversation's id.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete one for every reader, its content out of the log too. A run that is under way is cancelled."""
    from administration import conversations
    from ops.admin.removal import remove

    remove(
        lambda admin, dry: conversations.delete(admin, conversation, dry_run=dry),
        dry_run=dry_run,
        yes=yes,
        json_too=as_json,
        bus="needed",
    )
