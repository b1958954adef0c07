"""A suite: a folder with its settings (`suite.yaml`), its cases (`cases.jsonl`), and the agent as it was when
they were collected (`agent.json`).

The folder belongs in its owner's repository: all of it is text, and nothing in it is a secret.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import yaml

from directory.agents import AgentSettings
from directory.model_parameters import PROVIDERS
from evals.errors import UnfitSuite

SETTINGS = "suite.yaml"
CASES = "cases.jsonl"
AGENT = "agent.json"
IGNORED = ".gitignore"

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Amount = Annotated[float, msgspec.Meta(gt=0)]
_Tokens = Annotated[int, msgspec.Meta(ge=1)]
_PATH = re.compile(r"(?P<reason>.*) - at `\$\.?(?P<path>[^`]*)`", re.DOTALL)


class RedactionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is replaced before a case is written: one of `pattern`, `field` and `function`.

    `pattern` is a regular expression, looked for in every text. `field` is a place in a tool's calls
    (`get_order.input.email`, `get_order.output.items.*.price`) or in the metadata (`metadata.customer`).
    `function` is the owner's own, as `module:name` (`redaction_rules`). In `replacement`, `{n}` is the number
    of the value in its case.
    """

    name: _Text | None = None
    pattern: _Text | None = None
    field: _Text | None = None
    function: _Text | None = None
    replacement: str | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.pattern, self.field, self.function)) != 1:
            raise ValueError("Expected one of `pattern`, `field` and `function`")

    @property
    def label(self) -> str:
        """What cases call it."""
        return self.name or self.field or self.function or self.pattern or ""


class SuiteTools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a tool call that was never recorded. `live` is for the `harmless` tools alone; a call
    of another one stops the case.
    """

    unrecorded: Literal["stop", "simulate", "live"] = "stop"
    harmless: tuple[str, ...] = ()


class SuiteBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one run of the suite may cost, judges included; `money` is in the currency of the price table."""

    money: _Amount | None = None
    tokens: _Tokens | None = None


class JudgeModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who judges; None: as the agent has it. Another provider than the agent's is sent cases only if it is
    named here.
    """

    provider: _Text | None = None
    model: _Text | None = None
    base_url: _Text | None = None

    def __post_init__(self) -> None:
        if self.provider not in (None, *PROVIDERS):
            raise ValueError(f"Expected `provider` to be one of {', '.join(PROVIDERS)}")


class SuiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`suite.yaml`. `agent` and `account` are ids.

    `evaluators` are mappings, each with a `name`; without any, the default ones judge. `repeats`: so often
    each case is run. `concurrency`: so many runs at a time; `rate`: so many begin in a second at most.
    `baseline` is a stored run in the folder, to compare with instead of the recorded runs.
    """

    agent: _Text
    account: _Text
    evaluators: tuple[Mapping[str, Any], ...] = ()
    thresholds: Mapping[str, Any] = {}
    budget: SuiteBudget = SuiteBudget()
    repeats: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    rate: _Amount | None = None
    tools: SuiteTools = SuiteTools()
    judge: JudgeModel | None = None
    redact: tuple[RedactionRule, ...] = ()
    baseline: _Text | None = None

    def __post_init__(self) -> None:
        for place, each in enumerate(self.evaluators):
            if not (isinstance(each.get("name"), str) and each["name"]):
                raise ValueError(f"Expected `evaluators[{place}]` to have a `name`")


class SuiteAgent(msgspec.Struct, frozen=True, kw_only=True):
    """`agent.json`: a version of an agent, without its key and its tool servers' headers."""

    agent_id: str
    account_id: str
    version: int
    settings: AgentSettings


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """A suite that has been read, but for its cases (`case_file.read_cases`)."""

    folder: Path
    settings: SuiteSettings
    agent: SuiteAgent

    @property
    def cases(self) -> Path:
        return self.folder / CASES


def read_suite(folder: Path) -> Suite:
    """Raises UnfitSuite, with the field that is wrong."""
    settings, agent = read_settings(folder), _agent(folder)
    if (agent.agent_id, agent.account_id) != (settings.agent, settings.account):
        named = f"agent {agent.agent_id} of account {agent.account_id}"
        raise UnfitSuite(AGENT, f"is {named}, and {SETTINGS} names another one: collect again")
    return Suite(folder=folder, settings=settings, agent=agent)


def read_settings(folder: Path) -> SuiteSettings:
    """Raises UnfitSuite, with the field that is wrong."""
    return settings_in(read_file(folder / SETTINGS))


def settings_in(data: bytes) -> SuiteSettings:
    """Of the text of a `suite.yaml`. Raises UnfitSuite."""
    try:
        return msgspec.convert(yaml.safe_load(data), SuiteSettings)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitSuite(SETTINGS, f"not YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise UnfitSuite(SETTINGS, explained(error)) from None


def new_settings(agent_id: str, account_id: str) -> bytes:
    """The text of a first `suite.yaml`, for its owner to edit. What it redacts is what most logs have."""
    return _NEW_SETTINGS.format(agent=agent_id, account=account_id).encode()


def make_folder(folder: Path) -> None:
    """Raises UnfitSuite where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnfitSuite(str(folder), f"no folder can be made there: {error.strerror or error}") from None


def write_agent(folder: Path, agent: SuiteAgent) -> None:
    """Raises UnfitSuite where it cannot be written."""
    data = msgspec.json.format(msgspec.json.encode(agent), indent=2)
    write_file(folder / AGENT, data + b"\n")


def write_ignored(folder: Path) -> None:
    """Git leaves out results, which have the replies, and what a killed process was writing. Where there is a
    file it stays. Raises UnfitSuite where it cannot be written.
    """
    if not (folder / IGNORED).exists():
        write_file(folder / IGNORED, b"results*.jsonl\n.*.partial\n")


def write_file(path: Path, data: bytes) -> None:
    """All of it or nothing. Raises UnfitSuite where it cannot be written."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when the block has ended; an exception leaves what was there.

    Its owner alone may read it: cases hold what customers said. Raises UnfitSuite where it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=_private) as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise UnfitSuite(path.name, f"cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A file of a suite, opened. Raises UnfitSuite where it cannot be read."""
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise UnfitSuite(path.name, f"cannot be read: {error.strerror or error}") from None


def read_file(path: Path) -> bytes:
    """All of it. Raises UnfitSuite."""
    with reading(path) as file:
        return file.read()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def explained(error: msgspec.ValidationError) -> str:
    """`tools.unrecorded: Invalid enum value 'no'`, of a decoder's message."""
    found = _PATH.fullmatch(str(error))
    if found is None or not found["path"]:
        return found["reason"] if found else str(error)
    return f"{found['path']}: {found['reason']}"


def _agent(folder: Path) -> SuiteAgent:
    try:
        return msgspec.json.decode(read_file(folder / AGENT), type=SuiteAgent)
    except msgspec.ValidationError as error:
        raise UnfitSuite(AGENT, explained(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitSuite(AGENT, f"not JSON: {error}") from None


_NEW_SETTINGS = r"""# A suite of recorded runs. All settings: docs/analyse/evals.md
agent: {agent}
account: {account}
concurrency: 4
tools:
  unrecorded: stop
redact:
  - name: email
    pattern: '[\w.+-]+@[\w-]+(\.[\w-]+)+'
    replacement: 'person{{n}}@example.com'
  - name: phone
    pattern: '(?<![\w+])\+[0-9][0-9 ()./-]{{6,}}[0-9]'
  - name: card
    pattern: '(?<![\w-])[2-6][0-9]{{3}}([ -]?)[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{1,7}}(?![\w-])'
  - name: iban
    pattern: '(?<!\w)[A-Z]{{2}}[0-9]{{2}}( ?[A-Z0-9]{{4}}){{3,7}}( ?[A-Z0-9]{{1,3}})?(?!\w)'
"""
