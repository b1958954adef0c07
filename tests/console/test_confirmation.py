"""What must be confirmed, and when it counts as confirmed."""

import pytest
from litestar.datastructures import FormMultiDict

from agentchat.console.shared.confirmation import DropDown, Question, describe_uses, find_unconfirmed
from agentchat.contracts.admin_errors import Use

PLAIN = Question(title="Revoke?", text="It fails.", button="Revoke", back="/")
NAMED = Question(title="Delete?", text="It goes.", button="Delete", back="/", typed="Acme & Sons")
HOURS = DropDown(name="overlap", label="For", options={"0": "no time"})
CHOSEN = Question(title="Rotate?", text="It changes.", button="Rotate", back="/", choice=HOURS)
CANCEL = Question(title="Cancel?", text="It stops.", button="Cancel", back="/", about="run-1")
CHANGED = "This was done meanwhile, or has changed since you were asked. Nothing was changed."


@pytest.mark.parametrize(
    ("question", "given", "problem"),
    [
        (PLAIN, {}, ""),
        (PLAIN, {"typed": "Acme"}, ""),
        (PLAIN, {"confirmed": "1"}, None),
        (NAMED, {"typed": "Acme & Sons"}, ""),
        (NAMED, {"confirmed": "1"}, "This is not Acme & Sons. Nothing was changed."),
        (NAMED, {"confirmed": "1", "typed": "acme"}, "This is not Acme & Sons. Nothing was changed."),
        (NAMED, {"confirmed": "1", "typed": "Acme & Sons"}, None),
        (CHOSEN, {"overlap": "0"}, ""),
        (CANCEL, {"confirmed": "1", "about": "run-1"}, None),
        (CANCEL, {"confirmed": "1", "about": "run-0"}, CHANGED),
        (CANCEL, {"confirmed": "1"}, CHANGED),
    ],
)
def test_an_action_needs_a_confirmation(
    question: Question, given: dict[str, str], problem: str | None
) -> None:
    sent = FormMultiDict([("_csrf_token", "t"), ("action", "go"), ("scopes", "a"), ("scopes", "b")])
    found = find_unconfirmed(FormMultiDict([*sent.multi_items(), *given.items()]), question)
    assert (None if found is None else found.problem) == problem
    if found is not None:
        same = [("action", "go"), ("scopes", "a"), ("scopes", "b")]
        assert sorted(found.fields) == same, "it is sent again with these"


def test_uses_are_counted_in_words() -> None:
    assert describe_uses(()) == "nothing else"
    assert describe_uses((Use("keys", 1),)) == "1 key"
    assert describe_uses((Use("keys", 2), Use("agents", 1), Use("conversations", 1200))) == (
        "2 keys, 1 agent and 1,200 conversations"
    )
