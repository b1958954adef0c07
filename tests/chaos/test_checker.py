"""The checker tested: a recorded run passes, and each of the bugs below, planted into it, is found."""

import gzip
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.chaos.checker import check, judge, why_invalid
from tests.chaos.checker.view import Run, View
from tests.chaos.plan import LIMITED
from tests.chaos.records import Event, Exchange, History, ToolRun

_GOLDEN = gzip.decompress(Path(__file__).with_name("golden.json.gz").read_bytes())
Bug = Callable[[History], None]


def golden() -> History:
    """A run of this rig with a fault every second, as it was recorded."""
    return msgspec.json.decode(_GOLDEN, type=History)


def find_violated(history: History) -> set[str]:
    return {violation.invariant for violation in check(history)}


def test_a_recorded_run_violates_nothing_and_counts() -> None:
    assert check(golden()) == []
    assert why_invalid(golden()) == []


def _pick_run(history: History, *, form: str | None = None, tools: bool = False) -> tuple[Run, Exchange]:
    """A run that its client saw to its end."""
    view = View(history)
    for exchange in history.exchanges:
        run = view.runs.get(exchange.headers.get("x-trace-id", ""), Run(""))
        seen = exchange.accepted and exchange.end == "eof" and run.messages("assistant")
        wanted = form in (None, exchange.form) and (run.of("tool_returned") or not tools)
        if seen and wanted and not exchange.probe:
            return run, exchange
    raise AssertionError("the golden run has no such run")


def _drop(history: History, *events: Event) -> None:
    """Take events out as if they had never been stored."""
    gone = {event.position for event in events}
    history.events = [event for event in history.events if event.position not in gone]
    history.final.tailed = [position for position in history.final.tailed if position not in gone]
    for conversation in {event.conversation for event in events}:
        left = [event for event in history.events if event.conversation == conversation]
        for version, event in enumerate(sorted(left, key=lambda each: each.version), 1):
            event.version = version


def _append(history: History, copy_of: Event) -> None:
    """Store an event once more, after its conversation's last."""
    versions = [event.version for event in history.events if event.conversation == copy_of.conversation]
    again = msgspec.convert(msgspec.to_builtins(copy_of), Event)
    again.version, again.position = max(versions) + 1, max(history.final.tailed) + 1
    history.events.append(again)
    history.final.tailed.append(again.position)


def answered_before_it_was_saved(history: History) -> None:
    run, _ = _pick_run(history)
    _drop(history, *run.events)


def saved_twice(history: History) -> None:
    run, _ = _pick_run(history)
    _append(history, run.messages("user")[0])


def saved_as_another_text(history: History) -> None:
    run, _ = _pick_run(history)
    run.messages("user")[0].state["content"] += "?"


def model_called_before_the_save(history: History) -> None:
    history.model[0].saved = False


def no_fencing_so_two_workers_end_a_run(history: History) -> None:
    run, _ = _pick_run(history)
    _append(history, run.messages("assistant")[0])
    _append(history, run.of("run_completed")[0])


def a_run_that_is_never_taken_up_again(history: History) -> None:
    run, _ = _pick_run(history)
    _drop(history, *run.of("run_completed"), *run.messages("assistant"))


def done_before_the_reply_is_saved(history: History) -> None:
    _pick_run(history)[1].saved_at_done = False


def a_delta_that_is_lost(history: History) -> None:
    _, exchange = _pick_run(history, form="form1")
    lines = exchange.body.split("\n\n")
    lines.pop(next(index for index, line in enumerate(lines) if '"delta"' in line))
    exchange.body = "\n\n".join(lines)


def a_delta_that_is_sent_again_after_a_takeover(history: History) -> None:
    _, exchange = _pick_run(history, form="form1")
    lines = exchange.body.split("\n\n")
    index = next(index for index, line in enumerate(lines) if '"delta"' in line)
    exchange.body = "\n\n".join([*lines[: index + 1], *lines[index:]])


def events_behind_done(history: History) -> None:
    _, exchange = _pick_run(history, form="form1")
    exchange.body += exchange.body.split("\n\n")[1] + "\n\n"


def a_stream_that_ends_without_a_word(history: History) -> None:
    _, exchange = _pick_run(history, form="form2")
    exchange.body = exchange.body[: exchange.body.index('data: {"type":"done"')]
    history.faults = [fault for fault in history.faults if "gateway" not in fault.target]


def a_stream_that_never_ends(history: History) -> None:
    _, exchange = _pick_run(history, form="form1")
    exchange.ended = history.final.healed + 60.0


def a_slot_that_is_never_freed(history: History) -> None:
    history.final.unsettled = ["limits:{A}:slots trace"]


def a_thread_that_does_not_answer_any_more(history: History) -> None:
    probe = next(each for each in history.exchanges if each.probe)
    probe.status, probe.body = 409, '{"code":"conversation_busy"}'


def a_request_that_overtakes_the_run_under_way(history: History) -> None:
    view = View(history)
    events = next(each for each in view.conversations.values() if len({event.trace for event in each}) > 1)
    first = View(history).runs[events[0].trace]
    last = first.events[-1]
    following = next(event for event in events if event.version == last.version + 1)
    last.version, following.version = following.version, last.version


def a_prompt_without_the_thread_before(history: History) -> None:
    call = next(call for call in history.model if sum(kind == "user" for kind, _ in call.items) > 1)
    call.items = call.items[-1:]


def tools_that_are_not_offered_and_not_told_of_in_words(history: History) -> None:
    call = next(call for call in history.model if any(kind == "call" for kind, _ in call.items))
    call.tools = False


def a_reader_that_skips_a_gap(history: History) -> None:
    history.final.tailed.remove(history.final.tailed[len(history.final.tailed) // 2])


def a_partial_stream_that_is_saved_over(history: History) -> None:
    run, _ = _pick_run(history)
    events = [event for event in history.events if event.conversation == run.events[0].conversation]
    events[-1].version += 1


def a_write_tool_that_runs_again(history: History) -> None:
    ran = next(run for run in history.tools if run.tool == "note")
    history.tools.append(msgspec.convert(msgspec.to_builtins(ran), ToolRun))


def a_tool_result_out_of_thin_air(history: History) -> None:
    run, _ = _pick_run(history, tools=True)
    history.tools = [each for each in history.tools if each.ask != run.ask]


def a_rebuild_that_is_off_by_one(history: History) -> None:
    history.final.replay["as they were"] = False


def a_cache_shared_by_tenants(history: History) -> None:
    _, exchange = _pick_run(history)
    other = "B" if exchange.account == "A" else "A"
    exchange.body = exchange.body.replace("[[acct:" + exchange.account, "[[acct:" + other)


def another_tenants_provider_key(history: History) -> None:
    history.model[0].account = "B" if history.model[0].account == "A" else "A"


def tokens_counted_twice(history: History) -> None:
    view = View(history)
    for run in view.runs.values():
        calls = view.calls_of[run.ask]
        if run.messages("assistant") and len(calls) == len(run.of("model_replied")):
            run.messages("assistant")[0].state["token_count"] *= 2
            return


def a_model_call_behind_the_end(history: History) -> None:
    run, _ = _pick_run(history)
    call = next(call for call in history.model if call.ask == run.ask)
    call.at = run.ended + 20.0


def a_limit_that_two_gateways_count_apart(history: History) -> None:
    history.faults = [fault for fault in history.faults if "valkey" not in fault.target]
    accepted = next(each for each in history.exchanges if each.account == LIMITED and each.accepted)
    history.exchanges += [accepted] * 2 * history.rate_per_minute


def a_refusal_without_a_time(history: History) -> None:
    next(each for each in history.exchanges if each.status == 429).headers["retry-after"] = "soon"


def a_key_in_a_log(history: History) -> None:
    history.final.leaks = ["a secret in log orchestrator-1.log"]


def an_answer_without_its_trace(history: History) -> None:
    del next(each for each in history.exchanges if each.status == 429).headers["x-trace-id"]


BUGS: tuple[tuple[str, Bug], ...] = (
    ("I1", answered_before_it_was_saved),
    ("I1", saved_twice),
    ("I1", saved_as_another_text),
    ("I2", model_called_before_the_save),
    ("I3", no_fencing_so_two_workers_end_a_run),
    ("I3", a_run_that_is_never_taken_up_again),
    ("I4", done_before_the_reply_is_saved),
    ("I4", a_delta_that_is_lost),
    ("I4", a_delta_that_is_sent_again_after_a_takeover),
    ("I5", events_behind_done),
    ("I5", a_stream_that_ends_without_a_word),
    ("I6", a_stream_that_never_ends),
    ("I7", a_slot_that_is_never_freed),
    ("I7", a_thread_that_does_not_answer_any_more),
    ("I8", a_request_that_overtakes_the_run_under_way),
    ("I8", a_prompt_without_the_thread_before),
    ("I8", tools_that_are_not_offered_and_not_told_of_in_words),
    ("I9", a_reader_that_skips_a_gap),
    ("I9", a_partial_stream_that_is_saved_over),
    ("I10", a_write_tool_that_runs_again),
    ("I10", a_tool_result_out_of_thin_air),
    ("I11", a_rebuild_that_is_off_by_one),
    ("I12", a_cache_shared_by_tenants),
    ("I12", another_tenants_provider_key),
    ("I13", tokens_counted_twice),
    ("I13", a_model_call_behind_the_end),
    ("I14", a_limit_that_two_gateways_count_apart),
    ("I14", a_refusal_without_a_time),
    ("I15", a_key_in_a_log),
    ("I16", an_answer_without_its_trace),
)


@pytest.mark.parametrize(("invariant", "bug"), BUGS, ids=[bug.__name__ for _, bug in BUGS])
def test_a_planted_bug_is_found(invariant: str, bug: Bug) -> None:
    history = golden()
    bug(history)
    assert invariant in find_violated(history)


def test_what_lost_events_explain_is_left_out_where_repair_listed_it() -> None:
    history = golden()
    conversation = _pick_run(history)[0].events[0].conversation
    others = sorted({event.conversation for event in history.events} - {conversation})
    answered_before_it_was_saved(history)
    found = check(history)
    assert {"I1", "I4", "I8", "I10"} >= {violation.invariant for violation in found} >= {"I1", "I4"}

    history.lost_conversations = others
    assert check(history) == found
    history.lost_conversations = [conversation]
    assert judge(history) == ([], found)


def test_an_ask_under_way_at_the_kill_is_left_out() -> None:
    history = golden()
    run, _ = _pick_run(history)
    answered_before_it_was_saved(history)
    history.unpublished_asks = [run.ask]
    assert "I1" not in find_violated(history)


_HOLDS_AFTER_A_LOSS = {"I3", "I5", "I7", "I9", "I11", "I12", "I14", "I15", "I16"}
_OF_LOST_EVENTS = {"I1", "I2", "I4", "I6", "I10", "I13"}


@pytest.mark.parametrize(("invariant", "bug"), BUGS, ids=[bug.__name__ for _, bug in BUGS])
def test_lost_events_explain_only_what_reads_them(invariant: str, bug: Bug) -> None:
    history = golden()
    bug(history)
    history.lost_conversations = sorted({event.conversation for event in history.events})
    assert _HOLDS_AFTER_A_LOSS & {invariant} <= find_violated(history)
    assert not _OF_LOST_EVENTS & find_violated(history)


def nothing_was_hit(history: History) -> None:
    for fault in history.faults:
        fault.hit = False


def hardly_anything_was_answered(history: History) -> None:
    history.events = [event for event in history.events if event.kind != "run_completed"]


def nobody_looked_for_secrets(history: History) -> None:
    history.final.searched = 0


def no_tool_ran(history: History) -> None:
    history.tools = []


@pytest.mark.parametrize(
    "fault", [nothing_was_hit, hardly_anything_was_answered, nobody_looked_for_secrets, no_tool_ran]
)
def test_a_run_that_proves_nothing_is_invalid(fault: Bug) -> None:
    history = golden()
    fault(history)
    assert why_invalid(history)
