"""Implement `agentchat eval sync`: remove cases whose conversations were deleted."""

from agentchat.contracts.text_checks import format_count
from agentchat.conversations.event_store.event_log import Log
from agentchat.evals.cases import read_cases, write_cases
from agentchat.ops import printing
from agentchat.ops.connections import run_with_pool
from agentchat.ops.evals.suite_folder import SuiteFolder, open_suite, translate_suite_errors
from agentchat.runtime.postgres import Pool


def sync(folder: SuiteFolder) -> None:
    """Remove the cases whose conversations have been deleted.

    Exit code 2: the folder is not a suite.
    """
    suite = open_suite(folder)
    with translate_suite_errors():
        cases = read_cases(suite.cases)

    async def list_erased(_: str, pool: Pool) -> frozenset[str]:
        return await find_erased(pool, {each.conversation_id for each in cases})

    gone = run_with_pool(list_erased)
    kept = [each for each in cases if each.conversation_id not in gone]
    if len(kept) < len(cases):
        with translate_suite_errors():
            write_cases(suite.cases, kept)
    printing.print_note(f"{format_count(len(cases) - len(kept), 'case')} removed, {len(kept):,} left")


async def find_erased(pool: Pool, conversation_ids: set[str]) -> frozenset[str]:
    """Return the conversations that were deleted. Raises DatabaseUnavailable."""
    log = Log(pool)
    return frozenset([each for each in conversation_ids if (await log.load_newest_run(each)).erased])
