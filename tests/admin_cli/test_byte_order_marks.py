"""Files and standard input with a byte order mark, for every reader of the command line."""

import codecs
import io
import sys
from pathlib import Path
from typing import Annotated

import pytest

from agentchat.contracts.text_checks import convert_to_utf8
from agentchat.contracts.values import Usage
from agentchat.evals.suite import parse_settings, read_lines
from agentchat.evals.suite import read_file as read_suite_file
from agentchat.ops.admin.arguments import read_body, read_query
from agentchat.ops.chat_command import _read_messages
from agentchat.ops.errors import StackError
from agentchat.runtime.prices import read_prices
from agentchat.runtime.settings import ServiceSettings, Setting, SettingsError, load


class SecretSettings(ServiceSettings, frozen=True, kw_only=True):
    token: Annotated[str, Setting("AGENTCHAT_TOKEN", secret=True)]


def encode(text: str) -> bytes:
    return codecs.BOM_UTF16_LE + text.encode("utf-16-le")


def feed_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_text_is_read_whatever_its_mark(mark: bytes, encoding: str) -> None:
    text = "Größe Ċ 中 😀 a\ufeffb"
    assert convert_to_utf8(mark + text.encode(encoding)).decode() == text


@pytest.mark.parametrize("option", [None, "-"])
def test_chat_messages_have_no_mark(monkeypatch: pytest.MonkeyPatch, option: str | None) -> None:
    feed_stdin(monkeypatch, encode("Grüße Ċ\r\n\nund 😀\n"))
    expected = ["Grüße Ċ", "und 😀"] if option is None else ["Grüße Ċ\r\n\nund 😀"]
    assert list(_read_messages(option)) == expected


def test_no_reader_of_a_file_sees_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(encode('{"name": "é"}'))
    feed_stdin(monkeypatch, path.read_bytes())
    assert read_body([f"@{path}"]) == read_body(["@-"]) == {"name": "é"}
    assert read_lines(path, dict[str, str]) == [{"name": "é"}]
    path.write_bytes(encode("höflich\r\n"))
    assert read_body([f"a=@file:{path}"]) == read_query([f"a=@file:{path}"]) == {"a": "höflich"}
    assert load(SecretSettings, {"AGENTCHAT_TOKEN_FILE": str(path)}).token == "höflich"
    path.write_bytes(encode('{"models": {"m": {"input": 1, "output": 2}}}'))
    assert read_prices(path).compute_cost("m", Usage(output_tokens=1_000_000)) == 2
    path.write_bytes(encode("agent: ä\naccount: b\n"))
    assert parse_settings(read_suite_file(path)).agent == "ä"


@pytest.mark.parametrize("broken", [b"caf\xe9", codecs.BOM_UTF16_LE + b"\x00\xd8\x00"])
def test_broken_text_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bytes) -> None:
    path = tmp_path / "broken"
    path.write_bytes(broken)
    with pytest.raises(StackError, match="not UTF-8"):
        read_body([f"@{path}"])
    feed_stdin(monkeypatch, broken)
    with pytest.raises(StackError, match="not UTF-8"):
        list(_read_messages(None))
    with pytest.raises(SettingsError, match="cannot be read"):
        load(SecretSettings, {"AGENTCHAT_TOKEN_FILE": str(path)})
