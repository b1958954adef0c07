"""Files and standard input with a byte order mark, for every reader of the command line."""

import codecs
import io
import sys
from pathlib import Path
from typing import Annotated

import pytest

from agentchat.contracts.text import convert_to_utf8
from agentchat.evals.prices import read_prices
from agentchat.evals.suite import parse_settings, read_lines
from agentchat.evals.suite import read_file as read_suite_file
from agentchat.ops.admin.arguments import read_body, read_query
from agentchat.ops.chat_command import _read_messages
from agentchat.ops.errors import StackError
from agentchat.runtime.settings import ServiceSettings, Setting, SettingsError, load

MARKS = {
    "none": (b"", "utf-8"),
    "utf-8": (codecs.BOM_UTF8, "utf-8"),
    "utf-16-le": (codecs.BOM_UTF16_LE, "utf-16-le"),
    "utf-16-be": (codecs.BOM_UTF16_BE, "utf-16-be"),
    "utf-32-le": (codecs.BOM_UTF32_LE, "utf-32-le"),
    "utf-32-be": (codecs.BOM_UTF32_BE, "utf-32-be"),
}
pytestmark = pytest.mark.parametrize("mark", MARKS)


class SecretSettings(ServiceSettings, frozen=True, kw_only=True):
    token: Annotated[str, Setting("AGENTCHAT_TOKEN", secret=True)]


def encode(text: str, mark: str) -> bytes:
    prefix, encoding = MARKS[mark]
    return prefix + text.encode(encoding)


def feed_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_json_body_is_read(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "agent.json"
    path.write_bytes(encode('{"name": "Größe Ċ 中 😀"}', mark))
    assert read_body([f"@{path}"]) == {"name": "Größe Ċ 中 😀"}


def test_json_body_on_stdin_is_read(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    feed_stdin(monkeypatch, encode('{"name": "é"}', mark))
    assert read_body(["@-"]) == {"name": "é"}


def test_field_from_a_file_has_no_mark(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes(encode("Antworte höflich.\n", mark))
    assert read_body([f"system_prompt=@file:{path}"]) == {"system_prompt": "Antworte höflich."}
    assert read_query([f"query=@file:{path}"]) == {"query": "Antworte höflich."}


@pytest.mark.parametrize("option", [None, "-"])
def test_chat_messages_have_no_mark(monkeypatch: pytest.MonkeyPatch, mark: str, option: str | None) -> None:
    feed_stdin(monkeypatch, encode("Grüße Ċ\r\n\nund 😀\n", mark))
    expected = ["Grüße Ċ", "und 😀"] if option is None else ["Grüße Ċ\r\n\nund 😀"]
    assert list(_read_messages(option)) == expected


def test_price_table_is_read(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "prices.json"
    path.write_bytes(encode('{"models": {"m": {"input": 1, "output": 2}}}', mark))
    assert read_prices(path).models["m"].output == 2


def test_suite_files_are_read(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(encode("agent: ä\naccount: b\n", mark))
    assert parse_settings(read_suite_file(path)).agent == "ä"
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(encode('{"é": 1}\n{"b": 2}\n', mark))
    assert read_lines(lines, dict[str, int]) == [{"é": 1}, {"b": 2}]


def test_secret_in_a_file_has_no_mark(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(encode("secret\r\n", mark))
    assert load(SecretSettings, {"AGENTCHAT_TOKEN_FILE": str(path)}).token == "secret"


def test_broken_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    broken = MARKS[mark][0] + (b"\xff\xfe\xfa" if mark in ("none", "utf-8") else b"\x00\xd8\x00")
    if mark == "none":
        broken = b"caf\xe9"
    path = tmp_path / "broken"
    path.write_bytes(broken)
    with pytest.raises(StackError, match="not UTF-8"):
        read_body([f"@{path}"])
    feed_stdin(monkeypatch, broken)
    with pytest.raises(StackError, match="not UTF-8"):
        list(_read_messages(None))
    with pytest.raises(SettingsError, match="cannot be read"):
        load(SecretSettings, {"AGENTCHAT_TOKEN_FILE": str(path)})


def test_text_within_a_file_is_unchanged(mark: str) -> None:
    assert convert_to_utf8(encode("a\ufeffb", mark)).decode() == "a\ufeffb"
