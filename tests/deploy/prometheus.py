"""Debian's Prometheus on a running stack, with the rules of deploy/prometheus and short times."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from ops.ports import free_port
from ops.record import read
from tests.harness import RunningStack

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
PROMETHEUS = shutil.which("prometheus")
_SCRAPE_SECONDS = 2
_SECONDS_A_MINUTE = 3
_FOR_SECONDS = 4
_START_SECONDS = 60.0
_WINDOW = re.compile(r"(\[|offset )(\d+)m")


def shortened(rules: bytes) -> bytes:
    """The same rules: a minute of a window is 3 s, and each alert is pending for 4 s. Thresholds stay."""
    found = msgspec.yaml.decode(rules)
    for rule in (rule for group in found["groups"] for rule in group["rules"]):
        rule["expr"] = _WINDOW.sub(
            lambda match: f"{match[1]}{int(match[2]) * _SECONDS_A_MINUTE}s", rule["expr"]
        )
        if "for" in rule:
            rule["for"] = f"{_FOR_SECONDS}s"
    return msgspec.yaml.encode(found)


class Prometheus:
    """A server that scrapes a stack."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=10, trust_env=False)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def wait_up(self) -> None:
        """Until it has scraped all services. Raises TimeoutError."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(httpx.TransportError, httpx.HTTPStatusError):
                    found = await self.query("count(up) == count(up == 1)")
                    if found and not await self.firing("AgentchatServiceDown"):
                        return
                await asyncio.sleep(0.5)

    async def query(self, expr: str) -> list[Any]:
        """The samples of an instant query."""
        answer = await self._http.get("/api/v1/query", params={"query": expr})
        answer.raise_for_status()
        found: list[Any] = answer.json()["data"]["result"]
        return found

    async def firing(self, alert: str, **labels: str) -> list[dict[str, str]]:
        """The annotations of the alerts of this name that fire with these labels."""
        answer = await self._http.get("/api/v1/alerts")
        answer.raise_for_status()
        wanted = ({"alertname": alert} | labels).items()
        alerts = answer.json()["data"]["alerts"]
        return [
            each["annotations"]
            for each in alerts
            if each["state"] == "firing" and wanted <= each["labels"].items()
        ]


@contextlib.asynccontextmanager
async def running_prometheus(stack: RunningStack, folder: Path) -> AsyncIterator[Prometheus]:
    """It has scraped each process of the stack when the block begins."""
    assert PROMETHEUS is not None
    port = free_port()
    (folder / "alerts.yaml").write_bytes(shortened(RULES.read_bytes()))
    (folder / "prometheus.yaml").write_bytes(msgspec.yaml.encode(_configuration(stack)))
    process = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    )
    server = Prometheus(f"http://127.0.0.1:{port}")
    try:
        await server.wait_up()
        yield server
    finally:
        await server.aclose()
        process.terminate()
        await process.wait()


def _configuration(stack: RunningStack) -> dict[str, Any]:
    kept = read(stack.folder.processes)
    assert kept is not None
    jobs: dict[str, list[str]] = {}
    for each in kept.processes:
        if each.metrics_url:
            jobs.setdefault(each.name.rpartition("-")[0], []).append(urlsplit(each.metrics_url).netloc)
    times = {"scrape_interval": f"{_SCRAPE_SECONDS}s", "scrape_timeout": f"{_SCRAPE_SECONDS}s"}
    return {
        "global": times | {"evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": targets}]} for job, targets in jobs.items()
        ],
    }
