"""Read and write a suite: settings (`suite.yaml`), cases (`cases.jsonl`) and the agent (`agent.json`).

`agent.json` is the agent as it was when the cases were collected. The folder belongs in its owner's
repository: all of it is text, and nothing in it is a secret.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import yaml

from agentchat.contracts.text_checks import convert_to_utf8
from agentchat.directory.agent_config import AgentSettings
from agentchat.evals.errors import UnfitSuite
from agentchat.evals.redaction_rules import DEFAULT_RULES, RedactionRule

SETTINGS = "suite.yaml"
CASES = "cases.jsonl"
AGENT = "agent.json"
RESULTS = "results.jsonl"
IGNORED = ".gitignore"
NOT_RUN = "not_run"
"""The threshold for the share of cases that may have no result."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Amount = Annotated[float, msgspec.Meta(gt=0)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_PATH = re.compile(r"(?P<reason>.*) - at `\$\.?(?P<path>[^`]*)`", re.DOTALL)


class SuiteBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that one run of the suite may cost, without judges.

    `money` is in the price table's currency.
    """

    money: _Amount | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Threshold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tolerated `drop` of an evaluator's mean, and the value that it must reach (`at_least`)."""

    drop: _Share = 0.05
    at_least: _Share | None = None


class SuiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings in `suite.yaml`. `agent` and `account` are ids.

    `evaluators` are written as in datasets of pydantic-evals; without any, the default ones judge. `judge` is
    the model of `LLMJudge`, such as `anthropic:claude-sonnet-4-5`. `repeats` is how often each case is run,
    `concurrency` how many run at a time.
    """

    agent: _Text
    account: _Text
    evaluators: tuple[Any, ...] = ()
    judge: _Text | None = None
    thresholds: Mapping[str, Any] = {}
    budget: SuiteBudget = SuiteBudget()
    repeats: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    redact: tuple[RedactionRule, ...] = ()

    def __post_init__(self) -> None:
        _ = self.not_run
        for name in self.thresholds:
            if name != NOT_RUN:
                self.get_threshold(name)

    @property
    def not_run(self) -> float:
        """The share of cases that may have no result."""
        return msgspec.convert(self.thresholds.get(NOT_RUN, 0.05), _Share)

    def get_threshold(self, evaluator: str) -> Threshold:
        """Return the threshold of an evaluator."""
        return msgspec.convert(self.thresholds.get(evaluator, {}), Threshold)


class SuiteAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an agent, without its key and its tool servers' headers: `agent.json`."""

    agent_id: str
    account_id: str
    version: int
    settings: AgentSettings


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """A suite without its cases (`cases.read_cases`)."""

    folder: Path
    settings: SuiteSettings
    agent: SuiteAgent

    @property
    def cases(self) -> Path:
        """The file with the cases."""
        return self.folder / CASES


def read_suite(folder: Path) -> Suite:
    """Read settings and agent. Raises UnfitSuite, which names the invalid field."""
    settings, agent = parse_settings(read_file(folder / SETTINGS)), _read_agent(folder)
    if (agent.agent_id, agent.account_id) != (settings.agent, settings.account):
        named = f"agent {agent.agent_id} of account {agent.account_id}"
        raise UnfitSuite(AGENT, f"is {named}, and {SETTINGS} names another one: collect again")
    return Suite(folder=folder, settings=settings, agent=agent)


def parse_settings(data: bytes) -> SuiteSettings:
    """Parse a `suite.yaml`. Raises UnfitSuite."""
    try:
        return msgspec.convert(yaml.safe_load(data), SuiteSettings)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitSuite(SETTINGS, f"not YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise UnfitSuite(SETTINGS, _explain(error)) from None


def render_settings(agent_id: str, account_id: str) -> bytes:
    """Return a first `suite.yaml` for its owner to edit, with rules that redact what most logs contain."""
    return _NEW_SETTINGS.format(agent=agent_id, account=account_id, rules=DEFAULT_RULES).encode()


def make_folder(folder: Path) -> None:
    """Create the folder, with a `.gitignore` for results, which contain replies. Raises UnfitSuite."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnfitSuite(str(folder), f"no folder can be made there: {error.strerror or error}") from None
    if not (folder / IGNORED).exists():
        write_file(folder / IGNORED, b"results*.jsonl\n.*.partial\n")


def write_agent(folder: Path, agent: SuiteAgent) -> None:
    """Write `agent.json`. Raises UnfitSuite."""
    data = msgspec.json.format(msgspec.json.encode(agent), indent=2)
    write_file(folder / AGENT, data + b"\n")


def write_file(path: Path, data: bytes) -> None:
    """Write all of a file or nothing. Raises UnfitSuite."""
    with replace_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name when the block ends; an exception keeps the old one.

    Only its owner may read it: cases hold what customers said. Raises UnfitSuite if it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise UnfitSuite(path.name, f"cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def read_file(path: Path) -> bytes:
    """Read a file of a suite. Raises UnfitSuite."""
    try:
        return convert_to_utf8(path.read_bytes())
    except OSError as error:
        raise UnfitSuite(path.name, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UnfitSuite(path.name, f"cannot be read: {error.reason} at byte {error.start}") from None


def read_lines(path: Path, kind: type[Any]) -> list[Any]:
    """Read a file of JSON lines. Raises UnfitSuite, which names the invalid line."""
    found, decoder = [], msgspec.json.Decoder(kind)
    for number, line in enumerate(read_file(path).splitlines(), start=1):
        try:
            found.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnfitSuite(path.name, f"line {number:,}: {error}") from None
    return found


def _explain(error: msgspec.ValidationError) -> str:
    """Rewrite a decoder's message as `budget.tokens: Expected int`."""
    found = _PATH.fullmatch(str(error))
    if found is None or not found["path"]:
        return found["reason"] if found else str(error)
    return f"{found['path']}: {found['reason']}"


def _read_agent(folder: Path) -> SuiteAgent:
    try:
        return msgspec.json.decode(read_file(folder / AGENT), type=SuiteAgent)
    except msgspec.ValidationError as error:
        raise UnfitSuite(AGENT, _explain(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitSuite(AGENT, f"not JSON: {error}") from None


_NEW_SETTINGS = """# A suite of recorded runs. All settings: docs/analyse/evals.md
agent: {agent}
account: {account}
concurrency: 4
redact:
{rules}"""
