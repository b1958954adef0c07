"""`python -m tests.smoke`: check the providers whose key is set, and print a report for the documentation."""

import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata

import httpx
import msgspec

from agentchat.ops import demo
from tests.harness import RunningStack, running_stack
from tests.smoke.checks import Provider, Smoke

_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_MODELS = {
    "anthropic": os.environ.get("SMOKE_ANTHROPIC_MODEL", demo.ANTHROPIC_MODEL),
    "openai": os.environ.get("SMOKE_OPENAI_MODEL", demo.OPENAI_MODEL),
}
_PASSED_ON = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")


class Result(msgspec.Struct, frozen=True):
    """How one check went."""

    provider: str
    check: str
    passed: bool
    words: str


def run_checks(stack: RunningStack, provider: Provider) -> Iterator[Result]:
    """Yield the result of each check as it ends."""
    found = stack.environment
    headers = {"Authorization": f"Bearer {found.admin_token}"}
    with httpx.Client(base_url=f"{found.base_url}/admin/v1", headers=headers, timeout=30) as admin:
        account = admin.get(f"/agents/{found.agent_id}").raise_for_status().json()["account_id"]
        smoke = Smoke(
            provider, found.base_url, found.api_key, account, admin, f"{found.mcp_base_url}/api/mcp"
        )
        for name, check in smoke.checks().items():
            try:
                yield Result(provider.name, name, True, check())
            except Exception as error:  # noqa: BLE001 - each failure is a line of the report
                yield Result(provider.name, name, False, " ".join(f"{type(error).__name__}: {error}".split()))


def report_of(results: list[Result], models: dict[str, str]) -> str:
    """Return the report as Markdown."""
    names = ", ".join(f"{name} ({model})" for name, model in models.items())
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, version {metadata.version('agentchat')},"
        f" Python {platform.python_version()}, {names}, run by ...",
        "",
        "| provider | check | result | |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {each.provider} | {each.check} | {'passed' if each.passed else '**failed**'} | "
        f"{each.words[:160].replace('|', '/')} |"
        for each in results
    ]
    return "\n".join(lines)


async def _run(providers: list[Provider]) -> list[Result]:
    environ = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    results: list[Result] = []
    async with running_stack(environ=environ) as stack:
        for provider in providers:
            results += await asyncio.to_thread(list, run_checks(stack, provider))
    return results


def main() -> int:
    providers = [
        Provider(name=name, model=_MODELS[name]) for name, key in _KEYS.items() if os.environ.get(key)
    ]
    if not providers:
        sys.stderr.write(f"set {' or '.join(_KEYS.values())}: the checks call the real providers\n")
        return 2
    results = asyncio.run(_run(providers))
    print(report_of(results, {each.name: each.model for each in providers}))
    return 0 if all(each.passed for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
