"""The metrics of a process, as Prometheus would scrape them."""

from prometheus_client.parser import text_string_to_metric_families

from tests.runtime.test_health import ask


def counts_in(exposition: str, name: str) -> dict[str, float]:
    """Return the samples of one name by their labels, such as {"reason=timeout": 1}."""
    return {
        ",".join(f"{label}={value}" for label, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name == name
    }


async def scrape(port: int, name: str) -> dict[str, float]:
    """Return the samples of one name that the health address on this port shows."""
    status, body = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status == b"HTTP/1.1 200 OK"
    return counts_in(body.decode(), name)
