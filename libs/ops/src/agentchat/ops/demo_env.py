"""Read and write `demo.env`: how to reach a running stack, and the demo's keys."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from agentchat.ops.errors import NotRunningError
from agentchat.ops.run_folder import VARIABLE, RunFolder, write_private

_DEFAULT_FOLDER = ".run"
REHEARSAL = "Rehearsal: no webhooks are sent, no runs continue, and nothing can be changed."


class Environment(msgspec.Struct, frozen=True, kw_only=True, rename="upper", omit_defaults=True):
    """The keys of `demo.env` (design 8), in lower case here.

    The servers' addresses are an operator's, who reads everything and changes no event; the analyst's is for
    only the views of `analytics`. `load_*` belong to an account without limits, its agent has no tools.
    `retrieval_agent_id` answers from the demo's knowledge base; `openai_agent_id` is the shop's, on OpenAI's
    wire.
    """

    base_url: str
    gateway_urls: tuple[str, ...]
    mcp_base_url: str
    console_url: str
    nats_url: str
    database_url: str
    analyst_database_url: str
    redis_url: str
    api_key: str
    agent_id: str
    retrieval_agent_id: str
    openai_agent_id: str
    starter_api_key: str
    starter_agent_id: str
    load_api_key: str
    load_agent_id: str
    admin_token: str
    rehearsal: Literal["1"] | None = None

    def __repr__(self) -> str:
        """Leave out the keys."""
        return f"Environment(base_url={self.base_url!r})"


def find_run_folder(environ: Mapping[str, str] = os.environ) -> RunFolder:
    """Return the folder that AGENTCHAT_RUN_DIR names, or `.run`."""
    return RunFolder(Path(environ.get(VARIABLE, "").strip() or _DEFAULT_FOLDER))


def get_variable(environ: Mapping[str, str], name: str) -> str | None:
    """Return the value of a variable, or None if it is unset or blank."""
    return environ.get(name, "").strip() or None


def load(folder: RunFolder | None = None, *, elsewhere: str = "") -> Environment:
    """Load how to reach the stack in `folder` (default: `find_run_folder()`).

    Raises NotRunningError; its text ends with `elsewhere`, which explains how to reach another system.
    """
    folder = folder or find_run_folder()
    if not folder.is_in_use():
        raise NotRunningError(
            f"nothing runs in {folder.path}; start it with `agentchat up`, or set {VARIABLE}{elsewhere}"
        )
    try:
        return parse(folder.demo_env.read_text())
    except FileNotFoundError:
        raise NotRunningError(
            f"the stack in {folder.path} is still starting, or is stopping{elsewhere}"
        ) from None


def write(folder: RunFolder, environment: Environment) -> None:
    """Write `demo.env`, readable by its owner only."""
    write_private(folder.demo_env, render(environment).encode())


def render(environment: Environment) -> str:
    """Return lines `export KEY=value`, for a shell to source."""
    values = msgspec.to_builtins(environment)
    lines = (
        f"export {key}={shlex.quote(_join_values(value))}"
        for key, value in values.items()
        if value is not None
    )
    return "\n".join([*lines, ""])


def parse(text: str) -> Environment:
    """Parse the text of `render`; unknown keys are ignored. Raises NotRunningError for another text."""
    values: dict[str, object] = {}
    for word in shlex.split(text):
        if word == "export":
            continue
        key, _, value = word.partition("=")
        values[key] = value.split(",") if key == "GATEWAY_URLS" else value
    try:
        return msgspec.convert(values, Environment)
    except msgspec.ValidationError as error:
        raise NotRunningError(f"demo.env was written by another version: {error}") from None


def _join_values(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
