from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from agentchat.runtime.settings import Setting, SettingsError, load


class Example(msgspec.Struct, frozen=True):
    url: Annotated[str, Setting("APP_URL")]
    key: Annotated[str, msgspec.Meta(min_length=8), Setting("APP_KEY", secret=True)]
    port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("APP_PORT")] = 8080
    ratio: Annotated[float, Setting("APP_RATIO")] = 0.5
    quick: Annotated[bool, Setting("APP_QUICK")] = False
    hosts: Annotated[tuple[str, ...], Setting("APP_HOSTS")] = ()
    form: Annotated[Literal[1, 2], Setting("APP_FORM")] = 1
    level: Annotated[Literal["info", "debug"] | None, Setting("APP_LEVEL")] = None


NEEDED = {"APP_URL": "u", "APP_KEY": "long enough"}


def test_defaults_stand_where_nothing_is_set() -> None:
    assert load(Example, NEEDED) == Example(url="u", key="long enough")


def test_every_kind_of_value_is_read() -> None:
    environ = NEEDED | {
        "APP_PORT": "0",
        "APP_RATIO": "2",
        "APP_QUICK": "true",
        "APP_HOSTS": "a:1, b:2,",
        "APP_FORM": "2",
        "APP_LEVEL": "debug",
    }
    read = load(Example, environ)
    assert read.port == 0
    assert read.ratio == 2.0
    assert read.quick is True
    assert read.hosts == (("a:1", "b:2"))
    assert read.form == 2
    assert read.level == "debug"


def test_an_empty_variable_counts_as_unset() -> None:
    assert load(Example, NEEDED | {"APP_PORT": " ", "APP_HOSTS": ""}) == load(Example, NEEDED)
    with pytest.raises(SettingsError, match=r"^APP_URL is not set$"):
        load(Example, NEEDED | {"APP_URL": ""})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("APP_PORT", "many", "APP_PORT 'many' cannot be used: expected a whole number"),
        ("APP_PORT", "70000", "APP_PORT '70000' cannot be used: expected a whole number <= 65535"),
        ("APP_RATIO", "half", "APP_RATIO 'half' cannot be used: expected a number"),
        ("APP_QUICK", "perhaps", "APP_QUICK 'perhaps' cannot be used: expected true or false"),
        ("APP_FORM", "3", "APP_FORM '3' cannot be used: must be one of 1, 2"),
        ("APP_LEVEL", "loud", "APP_LEVEL 'loud' cannot be used: must be one of info, debug"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_variable(name: str, value: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(Example, NEEDED | {name: value})
    assert str(caught.value) == reason


def test_a_secret_value_is_never_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Example, NEEDED | {"APP_KEY": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("APP_KEY cannot be used: ")


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("long enough\n")
    assert load(Example, {"APP_URL": "u", "APP_KEY_FILE": str(file)}) == load(Example, NEEDED)


def test_what_is_no_secret_is_not_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("u")
    with pytest.raises(SettingsError, match=r"^APP_URL is not set$"):
        load(Example, {"APP_URL_FILE": str(file), "APP_KEY": "long enough"})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xc3(", "cannot be read: it is not UTF-8"),
        (b" \n", "is empty"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused_by_its_variable(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load(Example, {"APP_URL": "u", "APP_KEY_FILE": str(file)})
    assert str(caught.value) == f"APP_KEY_FILE {str(file)!r} {reason}"


def test_a_secret_that_is_set_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^APP_KEY and APP_KEY_FILE are both set$"):
        load(Example, NEEDED | {"APP_KEY_FILE": str(tmp_path)})
