"""Scrape the metrics of services and sum them up, for the console."""

import asyncio
import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

_SCRAPE_SECONDS = 2.0
_PREFIX = "agentchat_"
Labels = frozenset[tuple[str, str]]


class Scrape:
    """The samples of all processes at one time, summed by name and labels."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.memory: dict[str, float] = {}
        self.started: dict[str, datetime] = {}
        self.away: list[str] = []
        self._samples: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, process: str, text: str) -> None:
        """Add the text of a process' `/metrics`."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if math.isnan(sample.value):  # a process that does not know
                    continue
                name = sample.name.removeprefix(_PREFIX)
                self._samples[name][frozenset(sample.labels.items())] += sample.value
                if name == "process_memory_bytes":
                    self.memory[process] = sample.value
                elif name == "process_start_time_seconds":
                    self.started[process] = datetime.fromtimestamp(sample.value, UTC)

    def sum(self, name: str, **labels: str) -> float:
        """Return the sum of all samples with this name and these labels."""
        wanted = labels.items()
        return math.fsum(value for has, value in self._samples.get(name, {}).items() if wanted <= set(has))

    def find(self, name: str) -> float | None:
        """Return the sum of all samples with this name; None if no process has one."""
        return self.sum(name) if self._samples.get(name) else None

    def sum_by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of the samples of this name, by the values of a label."""
        found: dict[str, float] = defaultdict(float)
        for has, value in self._samples.get(name, {}).items():
            found[dict(has).get(label, "")] += value
        return dict(found)


async def scrape(targets: Mapping[str, str]) -> Scrape:
    """Scrape all targets at the same time. Processes that do not answer are in `away`."""
    found = Scrape()

    async def scrape_one(name: str, url: str) -> None:
        try:
            found.add(name, await asyncio.to_thread(fetch, url))
        except (OSError, HTTPException, ValueError):
            found.away.append(name)

    await asyncio.gather(*(scrape_one(name, url) for name, url in targets.items()))
    return found


def fetch(url: str) -> str:
    """Fetch a page by the standard library, since the console loads no HTTP client.

    Raises OSError, HTTPException, ValueError for another status than 200.
    """
    address = urlsplit(url)
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_SCRAPE_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", address._replace(scheme="", netloc="", fragment="").geturl())
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"{address.hostname} answers {response.status}")
        return response.read().decode()


def compute_quantile(part: float, before: Scrape, after: Scrape, name: str) -> float | None:
    """Compute a quantile of a histogram by linear interpolation in its bucket, as Prometheus does."""
    old = before.sum_by(f"{name}_bucket", "le")
    counts = {
        float(le): value - old.get(le, 0.0) for le, value in after.sum_by(f"{name}_bucket", "le").items()
    }
    total = counts.get(math.inf, 0.0)
    if total <= 0:
        return None
    lower = lower_count = 0.0
    for bound in sorted(counts):
        if counts[bound] >= part * total:
            if math.isinf(bound):
                return lower
            share = (part * total - lower_count) / (counts[bound] - lower_count)
            return round(lower + (bound - lower) * share, 4)
        lower, lower_count = bound, counts[bound]
    return lower
