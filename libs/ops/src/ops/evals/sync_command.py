"""`agentchat eval sync`: a suite's cases compared with the log."""

from collections import Counter

from evals.case_file import remove_lines
from evals.syncing import FINE, CaseSync, SyncedCase
from ops import printing
from ops.admin.options import AsJson
from ops.connections import run
from ops.errors import RefusedError
from ops.evals.show_suite import SuiteFolder, suite_at, suite_errors
from ops.output import counted
from runtime.postgres import Pool


def sync(folder: SuiteFolder, as_json: AsJson = False) -> None:
    """Remove erased cases, and name changed ones.

    Exit code 1: the log has another event at a case's place, or not its conversation, or it is of another
    account, or a line is damaged. These stay, and are reported. Exit code 2: a file is no suite's.
    """
    suite = suite_at(folder)

    async def work(_: str, pool: Pool) -> list[SyncedCase]:
        synced = CaseSync(pool, suite.settings.account)
        return [each async for each in synced.compare(suite.cases) if each.state != "same"]

    with suite_errors():
        found = run(work)
        erased = {each.line for each in found if each.state == "erased"}
        if erased:
            remove_lines(suite.cases, erased)
    wrong = [each for each in found if each.state not in (*FINE, "erased")]
    if as_json:
        printing.as_json({"removed": len(erased), "cases": found})
    for each in found:
        removed = ": removed" if each.state == "erased" else ""
        named = "" if each.state == "damaged" else f"case {each.case_id}: "
        printing.note(f"{named}{each.detail}{removed}")
    printing.note(f"{counted(len(erased), 'case')} removed, {_counted(wrong)}")
    if wrong:
        raise RefusedError(f"{counted(len(wrong), 'case')} of the suite are not what the log has")


def _counted(wrong: list[SyncedCase]) -> str:
    states = Counter(each.state for each in wrong)
    return ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in states.items()) or "no other"
