"""I12 and I15: what is an account's reaches no other, and secrets are nowhere."""

import re
from collections.abc import Iterator

from tests.chaos.checker.view import View
from tests.chaos.records import Violation

_OWNER = re.compile(r"\[\[acct:(\w+)\]\]")


def kept_apart(view: View) -> Iterator[Violation]:
    """I12: no account's text or credentials in another's answers, model requests or tool calls."""
    for exchange in view.history.exchanges:
        yield from _check_foreign_text(exchange.body, exchange.account, exchange.ask, "its answer")
    for call in view.history.model:
        owner = view.account_of(call.ask)
        if call.account != owner:
            yield _v("I12", call.ask, f"the model was called with the key of {call.account}, for {owner}")
        shown = " ".join(text for _, text in call.items) + call.system
        yield from _check_foreign_text(shown, owner, call.ask, "its model request")
    for run in view.history.tools:
        owner = view.account_of(run.ask)
        if run.account != owner:
            yield _v("I12", run.ask, f"{run.tool} was called with the headers of {run.account}, for {owner}")
        yield from _check_foreign_text(run.input, owner, run.ask, "its tool call")


def _check_foreign_text(text: str, owner: str, ask: str, where: str) -> Iterator[Violation]:
    if others := {found for found in _OWNER.findall(text) if found != owner}:
        yield _v("I12", ask, f"{where}, of account {owner}, holds text of {sorted(others)}")


def secrets(view: View) -> Iterator[Violation]:
    """I15: no secret in logs, streams, Redis or a dump; no message in a log."""
    for leak in view.history.final.leaks:
        yield _v("I15", leak, "found in a search of all that was kept")


def _v(invariant: str, of: str, evidence: str) -> Violation:
    return Violation(invariant=invariant, of=of, evidence=evidence)
