"""I7 and I11: when all is healed nothing is stuck, every thread answers, and read models fit the log."""

from collections.abc import Iterator

from tests.chaos.checker.view import View, events_in
from tests.chaos.records import Violation

PROBE_SECONDS = 5.0


def at_rest(view: View) -> Iterator[Violation]:
    """I7: all runs ended, no message pending, no slot held, read models at the log's end."""
    for what in view.history.final.unsettled:
        yield _v("I7", what, "not at rest 30 s after the last fault")
    if not view.history.final.quiet and not view.history.final.unsettled:
        yield _v("I7", "the run", "it was not looked whether all is at rest")


def answers_again(view: View) -> Iterator[Violation]:
    """I7: a new message to every thread is answered in time."""
    answered = set()
    for exchange in view.history.exchanges:
        if not exchange.probe:
            continue
        took, last = exchange.ended - exchange.began, events_in(exchange)[-1:]
        if exchange.status != 200 or not last or last[0]["type"] != "done":
            told = last or exchange.body[:200]
            yield _v("I7", str(exchange.conversation), f"a new message got {exchange.status}, {told}")
        elif took > PROBE_SECONDS:
            yield _v("I7", str(exchange.conversation), f"a new message was answered in {took:.1f} s")
        answered.add(exchange.conversation)
    for conversation in view.conversations.keys() - answered:
        yield _v("I7", conversation, "no new message was sent to it")


def replays(view: View) -> Iterator[Violation]:
    """I11: read models that are rebuilt are the same as the live ones."""
    for proof, held in view.history.final.replay.items():
        if not held:
            yield _v("I11", proof, "it does not hold")


def _v(invariant: str, of: str, evidence: str) -> Violation:
    return Violation(invariant=invariant, of=of, evidence=evidence)
