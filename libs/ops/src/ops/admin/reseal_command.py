"""`agentchat admin secrets reseal`."""

import sys
from typing import Annotated

import typer

from administration import Admin
from administration.reseal import Resealed
from administration.reseal import reseal as seal_anew
from ops import printing
from ops.admin.direct import run
from ops.admin.options import AsJson
from ops.printing import progress


def reseal(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be sealed anew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Seal everything anew under the present secret key, after that was changed.

    AGENTCHAT_SECRET_KEY is the new key, AGENTCHAT_SECRET_KEY_PREVIOUS (a comma list) has those from before.
    May run while services do, and again where it broke off. Exit code 1 where something did not open.
    """
    found = run(lambda admin: _reseal(admin, dry_run=dry_run))
    for value in found.unopened:
        printing.note(f"agent {value.agent_id} version {value.version}: its {value.secret} {value.reason}")
    for endpoint in found.unopened_endpoints:
        printing.note(f"webhook endpoint {endpoint.endpoint_id}: its secret {endpoint.reason}")
    if as_json:
        printing.as_json(found)
    else:
        verb = "would be sealed" if dry_run else "sealed"
        unopened = len(found.unopened) + len(found.unopened_endpoints)
        sys.stdout.write(
            f"{found.resealed:,} of {found.values:,} secrets of {found.agents:,} agents and "
            f"{found.endpoints:,} webhook endpoints {verb} anew, {unopened:,} did not open\n"
        )
    if found.unopened or found.unopened_endpoints:
        sys.exit(1)


async def _reseal(admin: Admin, *, dry_run: bool) -> Resealed:
    with progress("sealing") as bar:
        task = bar.add_task("agents", total=None)
        return await seal_anew(
            admin.pool,
            admin.sealer,
            actor=admin.actor,
            dry_run=dry_run,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
