"""A suite that a model judges, from conversations with feedback to kappa in the report, by the real SDK."""

from pathlib import Path

import httpx
import pytest

from bus import Bus
from evals.judging.suite_judging import judged_file, read_judged
from evals.suite import SETTINGS, Suite, read_suite
from runtime.postgres import open_pool
from tests.evals.same_version import run_suite
from tests.evals.shop_conversations import made_agent, suite_of
from tests.harness import RunningStack

_SAID = (("Say exactly: a mug", 1.0), ("Say exactly: two mugs", 1.0), ("Hello!", 1.0), ("Thanks!", -1.0))
"""Messages, and what people thought of the replies."""
_JUDGED = """
evaluators:
  - {name: rubric, label: has goods, rubric: 'The reply has "mug".'}
  - {name: pairwise, label: no worse, rubric: 'it has "mug"'}
"""


@pytest.fixture(scope="module")
async def suite(
    stack: RunningStack, http: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory
) -> Suite:
    found, conversations = stack.environment, []
    caller = await made_agent(found, http, name="Judged", system_prompt="You are the assistant of a shop.")
    for message, score in _SAID:
        said = (await caller.chat(message)).json()
        given = await caller.send(
            "POST", f"/v1/messages/{said['message']['id']}/feedback", json={"score": score}
        )
        assert given.status_code == 200, given.text
        conversations.append(said["conversation_id"])
    folder = tmp_path_factory.mktemp("suites") / "judged"
    async with (
        open_pool(found.database_url, role=None) as pool,
        Bus.connect(found.nats_url, name="tests") as bus,
    ):
        return await suite_of(pool, bus, folder, caller.agent_id, conversations)


def _with(suite: Suite, added: str) -> Suite:
    """With these lines in `suite.yaml`, after those of the agent."""
    path = suite.folder / SETTINGS
    path.write_text("\n".join([*path.read_text().splitlines()[:2], added]))
    return read_suite(suite.folder)


async def test_judges_are_paid_for_once_and_their_agreement_with_people_is_in_the_report(
    stack: RunningStack, suite: Suite, tmp_path: Path
) -> None:
    environ, comment = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}, tmp_path / "comment.md"
    suite = _with(suite, _JUDGED)
    code, results, told = await run_suite(suite, environ, "--markdown", str(comment))
    assert (code, len(results)) == (0, 4), told
    agreement = "agrees with people's feedback on 3 of 4 recorded runs (Cohen's κ 0.50)"
    assert f"has goods {agreement}" in told
    assert f"`has goods` {agreement}." in comment.read_text()
    judged = {each.case_id: each for each in read_judged(judged_file(suite.folder / "results.jsonl"))}
    said = [score for each in judged.values() if (score := each.again[0].score("has goods")) is not None]
    assert sorted(each.passed for each in said) == [False, False, True, True]
    assert {each.reply for each in said} == {
        '{"reason":"The reply has what is asked for.","fulfilled":true}',
        '{"reason":"The reply lacks \'mug\'.","fulfilled":false}',
    }
    code, _, told = await run_suite(suite, environ)
    assert (code, "4 of them paid for before: 0 tokens" in told) == (0, True), told


async def test_a_worse_prompt_is_found_by_both_judges(
    stack: RunningStack, suite: Suite, tmp_path: Path
) -> None:
    environ, prompt = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}, tmp_path / "prompt.txt"
    prompt.write_text('You are the assistant of a shop. Reply only with "NO".')
    code, _, told = await run_suite(_with(suite, _JUDGED), environ, "--prompt", str(prompt))
    assert code == 1, told
    assert "has goods fell from 50.0% to 0.0% in all cases (4)" in told
    assert "no worse fell from" in told


@pytest.mark.parametrize(
    ("settings", "kind", "reason"),
    [
        ("judge: {model: 'demo-echo?say=nonsense'}", "could_not_judge", "is not the JSON"),
        ("judge: {model: 'demo-shop-1?fail=401'}", "could_not_judge", ""),
        (
            "judge: {model: 'demo-shop-1?first_ms=1'}\nbudget: {tokens: 1}",
            "not_judged",
            "the budget of the run",
        ),
    ],
    ids=["nonsense", "refused", "no money"],
)
async def test_a_judge_that_gives_no_verdict_is_named_and_passes_nothing(
    stack: RunningStack, suite: Suite, settings: str, kind: str, reason: str
) -> None:
    """The replies are kept from the tests before, or made by the first of these."""
    environ = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    await run_suite(_with(suite, ""), environ)
    suite = _with(suite, "evaluators: [{name: rubric, rubric: 'The reply has \"mug\".'}]\n" + settings)
    code, _, told = await run_suite(suite, environ)
    assert (code, "rubric has no score of 4 of 4 cases, and 5% is allowed" in told) == (2, True), told
    judged = read_judged(judged_file(suite.folder / "results.jsonl"))
    missing = [unjudged for case in judged for unjudged in case.again[0].unjudged]
    assert [each.kind for each in missing] == [kind] * 4
    assert all(reason in each.detail for each in missing), missing
