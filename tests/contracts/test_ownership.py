"""The one rule for who may use a conversation."""

import pytest

from agentchat.contracts.ownership import Owner, build_scope, is_user_id, may_use

ADA, BOB, OWN = Owner("a", "ada"), Owner("a", "bob"), Owner("a")
OTHER, OTHER_ADA = Owner("b"), Owner("b", "ada")


@pytest.mark.parametrize(
    ("request_", "conversations"),
    [
        (OWN, {OWN, ADA, BOB}),
        (ADA, {ADA}),
        (BOB, {BOB}),
        (OTHER, {OTHER, OTHER_ADA}),
        (OTHER_ADA, {OTHER_ADA}),
    ],
)
def test_a_user_may_use_its_own_and_an_account_all(request_: Owner, conversations: set[Owner]) -> None:
    every = (OWN, ADA, BOB, OTHER, OTHER_ADA)
    assert {each for each in every if may_use(request_, each)} == conversations


def test_every_owner_has_a_scope_of_its_own() -> None:
    assert len({build_scope(each) for each in (OWN, ADA, BOB, OTHER, OTHER_ADA)}) == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [("CUST-001", True), ("a|b/c@d", True), ("x" * 129, False), ("", False), ("a b", False)],
)
def test_a_user_id_is_visible_ascii(text: str, expected: bool) -> None:
    assert is_user_id(text) == expected
