"""What failed next to other tests is tried once more, alone, and no more than that is forgiven."""

from pathlib import Path

import pytest

from tests import second_try

_ONCE = """
from pathlib import Path
def test_that_fails_once():
    tried = Path(__file__).with_name("tried")
    if not tried.exists():
        tried.touch()
        raise AssertionError
"""
_ALWAYS = "def test_that_fails(): assert False\n"


@pytest.fixture(autouse=True)
def no_plugins_but_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the others takes most of the time of these tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")


def run(folder: Path, tests: str) -> int:
    """As `make test` does, in one process."""
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return second_try.main(["-c", str(folder / "pytest.ini"), "-n", "0", str(folder)])


def test_what_passes_alone_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, _ONCE) == 0
    _, headline, named = capfd.readouterr().out.partition("FAILED NEXT TO OTHER TESTS, PASSED ALONE")
    assert headline
    assert "test_it.py::test_that_fails_once" in named


def test_what_fails_again_has_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, _ONCE + _ALWAYS) == 1
    assert "PASSED ALONE" not in capfd.readouterr().out


def test_more_than_a_few_failures_are_not_tried_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    many = "import pytest\n@pytest.mark.parametrize('number', range(6))\ndef test_it(number): assert False\n"
    assert run(tmp_path, many) == 1
    assert "once more" not in capfd.readouterr().out


def test_what_cannot_be_collected_is_not_tried_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "import nothing_of_this_name\n") == 2
    assert "once more" not in capfd.readouterr().out
