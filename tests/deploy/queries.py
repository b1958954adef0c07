"""What PromQL expressions name, and what the services show."""

import re

from prometheus_client.parser import text_string_to_metric_families

from runtime import metrics

_TEXT = re.compile(r'"[^"]*"')
_NAME = re.compile(r"(?<![\w:])(agentchat[_:][\w:]+|up)(?![\w:(])")


def metric_names(query: str) -> set[str]:
    """The metrics and recorded rules that a query reads."""
    return set(_NAME.findall(_TEXT.sub('""', query)))


def shown_names() -> set[str]:
    """Every name that `/metrics` of some service has, once everything has been measured."""
    metrics.start("gateway", "gateway-1", None)
    try:
        for metric in metrics.Metric.ALL:
            match metric:
                case metrics.Counter():
                    metric.add()
                case metrics.Histogram():
                    metric.record(1)
                case metrics.Gauge():
                    metric.set(1)
        families = text_string_to_metric_families(metrics.exposition().decode())
        return {sample.name for family in families for sample in family.samples}
    finally:
        metrics.stop()
