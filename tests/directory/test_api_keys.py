import re

from agentchat.directory.api_keys import generate_api_key, get_last4, hash_key


def test_a_key_is_the_fixed_prefix_and_43_url_safe_characters() -> None:
    keys = {generate_api_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert all(re.fullmatch(r"sk-ac-[A-Za-z0-9_-]{43}", key) for key in keys)


def test_a_hash_is_32_bytes_and_any_text_has_one() -> None:
    texts = ["", "sk-ac-x", "é", "\x00", "\ud800"]
    assert {len(hash_key(text)) for text in texts} == {32}
    assert len({hash_key(text) for text in texts}) == len(texts)


def test_only_the_last_four_characters_are_shown() -> None:
    assert get_last4("sk-ac-abcdef") == "cdef"
