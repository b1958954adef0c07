import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer

KEY = b"k" * 32


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_sealed_text_opens_to_the_same_text(plain: str) -> None:
    sealer = Sealer(KEY)
    assert sealer.open(sealer.seal(plain, owner="a/b"), owner="a/b") == plain


def test_same_text_is_sealed_differently_each_time() -> None:
    sealer = Sealer(KEY)
    first, second = sealer.seal("sk-ant-secret", owner="a"), sealer.seal("sk-ant-secret", owner="a")
    assert first != second
    assert b"secret" not in first


def test_another_owner_or_another_key_does_not_open_it() -> None:
    sealed = Sealer(KEY).seal("secret", owner="account-1/agent-1")
    with pytest.raises(SealBroken):
        Sealer(KEY).open(sealed, owner="account-2/agent-1")
    with pytest.raises(SealBroken, match="another secret key"):
        Sealer(b"x" * 32).open(sealed, owner="account-1/agent-1")


def test_a_pseudonym_depends_on_user_account_and_key() -> None:
    hashed = {
        Sealer(key).hash_user(account, user) for key in (KEY, b"x" * 32) for account in "ab" for user in "uv"
    }
    assert len(hashed) == 8
    assert Sealer(KEY).hash_user("a", "u") == Sealer(KEY, previous=[b"x" * 32]).hash_user("a", "u")


def test_changed_or_cut_sealed_value_does_not_open() -> None:
    sealer = Sealer(KEY)
    sealed = sealer.seal("secret", owner="a")
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(SealBroken):
            sealer.open(bytes(changed), owner="a")
        with pytest.raises(SealBroken):
            sealer.open(sealed[:position], owner="a")


def test_rotation_opens_old_values_and_seals_with_the_new_key() -> None:
    old, new = Sealer(KEY), Sealer(b"n" * 32, previous=[KEY])
    sealed = old.seal("secret", owner="a")
    assert new.open(sealed, owner="a") == "secret"
    assert not new.is_current(sealed)
    again = new.seal("secret", owner="a")
    assert new.is_current(again)
    with pytest.raises(SealBroken):
        old.open(again, owner="a")


@pytest.mark.parametrize("setting", ["", "not base64!", base64.b64encode(b"short").decode()])
def test_a_bad_setting_is_refused_without_repeating_it(setting: str) -> None:
    with pytest.raises(ValueError, match=r"^the secret key is ") as caught:
        Sealer.from_setting(setting)
    assert not setting or setting not in str(caught.value)


def test_the_setting_is_base64_of_32_bytes_in_either_alphabet() -> None:
    key = os.urandom(32)
    sealed = Sealer(key).seal("secret", owner="a")
    for setting in (base64.b64encode(key), base64.urlsafe_b64encode(key) + b"\n"):
        assert Sealer.from_setting(setting.decode()).open(sealed, owner="a") == "secret"
