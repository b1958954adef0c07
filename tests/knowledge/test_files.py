"""Files and folders as documents: what is found, what is named and passed over."""

import io
import os
from pathlib import Path

import pytest

from agentchat.knowledge.errors import Unreadable
from agentchat.knowledge.importing.document_drafts import MOST_BYTES
from agentchat.knowledge.importing.import_files import FoundFile, find_files, read_draft, read_piped


def make_file(folder: Path, **files: bytes) -> Path:
    """Make a folder of files; `a__md` is the file a.md."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def get_refusal(found: FoundFile) -> str:
    with pytest.raises(Unreadable) as caught:
        read_draft(found)
    return caught.value.reason


def test_a_folder_is_walked_in_order_and_names_begin_with_its_own(tmp_path: Path) -> None:
    docs = make_file(tmp_path / "docs", b__md=b"# B", a__txt=b"A", picture__png=b"\x89PNG", LICENSE=b"")
    make_file(docs / "deep", c__html=b"<p>C")
    make_file(docs / ".git", d__md=b"D")
    (docs / ".hidden.md").write_bytes(b"H")
    found = list(find_files([docs]))
    assert [(one.name, one.reason is None) for one in found] == [
        ("docs/LICENSE", False),
        ("docs/a.txt", True),
        ("docs/b.md", True),
        ("docs/picture.png", False),
        ("docs/deep/c.html", True),
    ]
    assert found[3].reason is not None
    assert found[3].reason.startswith("is of another kind than .md")


def test_names_do_not_depend_on_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = make_file(tmp_path / "docs", a__md=b"A")
    monkeypatch.chdir(docs)
    assert (
        [one.name for one in find_files([Path()])]
        == [one.name for one in find_files([docs])]
        == ["docs/a.md"]
    )


def test_a_file_has_one_name_alone_and_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = make_file(tmp_path / "docs", a__md=b"A")
    deep = make_file(docs / "guide", b__md=b"B")
    names = [one.name for one in find_files([docs])]
    assert names == ["docs/a.md", "docs/guide/b.md"]
    alone = [one.name for one in find_files([docs / "a.md", deep / "b.md"], docs)]
    assert alone == names
    assert [one.name for one in find_files([docs / "a.md"])] == names[:1]
    assert [one.name for one in find_files([deep], docs)] == names[1:]
    monkeypatch.chdir(docs)
    assert [one.name for one in find_files([Path("a.md")])] == names[:1]


def test_a_file_outside_the_folder_that_names_begin_with_is_not_read(tmp_path: Path) -> None:
    docs = make_file(tmp_path / "docs", a__md=b"A")
    other = make_file(tmp_path / "other", b__md=b"B")
    reasons = [found.reason for found in find_files([docs, other, other / "b.md"], docs)]
    assert reasons == [None, *[f"is not in the folder {docs}"] * 2]


def test_two_files_of_one_name_are_not_one_document(tmp_path: Path) -> None:
    one = make_file(tmp_path / "1" / "docs", a__md=b"A")
    other = make_file(tmp_path / "2" / "docs", a__md=b"B")
    reasons = [found.reason for found in find_files([one, other])]
    assert reasons == [None, "has the name of another file of this import"]


@pytest.mark.parametrize(
    ("name", "content", "kind", "text"),
    [
        ("a.md", "# Ünï".encode(), "markdown", "# Ünï"),
        ("a.HTML", b"<p>x", "html", "<p>x"),
        ("LICENSE", b"plain", "text", "plain"),
        ("bom.txt", b"\xef\xbb\xbfx", "text", "x"),
        ("utf16.txt", "Grüße".encode("utf-16"), "text", "Grüße"),
        ("l1.html", b'<meta charset="ISO-8859-1">Gr\xfc\xdfe', "html", '<meta charset="ISO-8859-1">Grüße'),
    ],
)
def test_a_file_is_read_as_what_it_is(
    tmp_path: Path, name: str, content: bytes, kind: str, text: str
) -> None:
    (tmp_path / name).write_bytes(content)
    [found] = find_files([tmp_path / name])
    draft = read_draft(found)
    assert draft.name == f"{tmp_path.name}/{name}"
    assert draft.kind == kind
    assert draft.text == text


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"ab\xe9c", "is not UTF-8 (byte 0xe9 at 2)"),
        ("a.txt", b"ab\0c", "is no text: it holds a NUL byte (at 2)"),
        ("a.txt", b"\xff\xfea", "is not UTF-16 (byte 0x61 at 2)"),
        ("a.html", b"<meta charset=base64>\xe9", "is not UTF-8 (byte 0xe9 at 21)"),
        ("a.html", b"<meta charset=nosuch>\xe9", "is not UTF-8 (byte 0xe9 at 21)"),
    ],
)
def test_what_is_no_text_is_said(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert get_refusal(FoundFile(name, tmp_path / name)) == reason


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    assert get_refusal(FoundFile("gone.md", tmp_path / "gone.md")) == "does not exist"
    os.mkfifo(tmp_path / "pipe.md")
    assert get_refusal(FoundFile("pipe.md", tmp_path / "pipe.md")) == "is no file"


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(100 * MOST_BYTES)
    assert get_refusal(FoundFile("large.txt", large)) == "is larger than 16 MiB"


def test_standard_input_is_a_file_of_the_name_it_is_given() -> None:
    draft = read_draft(read_piped(io.BytesIO(b"# Hi"), "notes.md"))
    assert (draft.name, draft.kind, draft.text) == ("notes.md", "markdown", "# Hi")
    assert get_refusal(read_piped(io.BytesIO(b"x" * (MOST_BYTES + 5)), "x.txt")) == "is larger than 16 MiB"


def test_a_file_name_may_hold_any_byte(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff\nname.md"))
    path.write_text("text")
    [found] = find_files([path])
    assert found.name == f"{tmp_path.name}/bad\ufffd name.md"
    assert read_draft(found).text == "text"
