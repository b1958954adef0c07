"""The files that browsers load: no rule without a use, and those of others as they were."""

import hashlib
import re

import msgspec

from agentchat.console.shared import assets, rendering

_OF_LIBRARIES = re.compile(r"u-.*|uplot")
_BUILT = re.compile(r"field-.*|compaction")
"""Classes that templates build from a value: the kind of a field, of a bar."""
_VENDORED = assets.FOLDER / "vendor"
_LICENCES = ("0BSD", "MIT")


class _Listed(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    package: str
    version: str
    licence: str
    path: str
    sha256: str


_LIST = msgspec.json.decode((_VENDORED / "vendored.json").read_bytes(), type=list[_Listed])


def test_every_class_is_used_by_a_page() -> None:
    sources = [*rendering.FOLDER.rglob("*.html"), *assets.FOLDER.glob("*.js")]
    sources += assets.FOLDER.parent.rglob("*.py")
    words = set(re.findall(r"[\w-]+", "".join(path.read_text() for path in sources)))
    rules = "".join(path.read_text() for path in assets.FOLDER.glob("*.css"))
    selectors = re.sub(r"/\*.*?\*/|\{[^{}]*\}", " ", rules, flags=re.DOTALL)
    unused = set(re.findall(r"\.([a-z][\w-]*)", selectors)) - words
    assert {name for name in unused if not (_OF_LIBRARIES.fullmatch(name) or _BUILT.fullmatch(name))} == set()


def test_vendored_files_are_listed_and_unchanged() -> None:
    files = sorted(path.name for path in _VENDORED.iterdir() if path.suffix != ".json")
    assert files == sorted(each.file for each in _LIST)
    for each in _LIST:
        data = (_VENDORED / each.file).read_bytes()
        assert (each.file, hashlib.sha256(data).hexdigest()) == (each.file, each.sha256)
        assert each.licence in _LICENCES
