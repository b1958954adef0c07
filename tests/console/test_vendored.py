"""Files of others are listed with where they come from, and are what they were."""

import hashlib

import msgspec

from agentchat.console.frame.assets import FOLDER

_VENDORED = FOLDER / "vendor"
_LICENCES = ("0BSD", "MIT")


class _Listed(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    package: str
    version: str
    licence: str
    path: str
    sha256: str


_LIST = msgspec.json.decode((_VENDORED / "vendored.json").read_bytes(), type=list[_Listed])


def test_vendored_files_are_listed_and_unchanged() -> None:
    files = sorted(path.name for path in _VENDORED.iterdir() if path.suffix != ".json")
    assert files == sorted(each.file for each in _LIST)
    for each in _LIST:
        data = (_VENDORED / each.file).read_bytes()
        assert (each.file, hashlib.sha256(data).hexdigest()) == (each.file, each.sha256)
        assert each.licence in _LICENCES
