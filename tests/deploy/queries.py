"""What PromQL expressions name, and what the services show."""

import re

from prometheus_client import REGISTRY

from agentchat.runtime import metrics

_TEXT = re.compile(r'"[^"]*"')
_NAME = re.compile(r"(?<![\w:])(agentchat[_:][\w:]+|up)(?![\w:(])")


def metric_names(query: str) -> set[str]:
    """The metrics and recorded rules that a query reads."""
    return set(_NAME.findall(_TEXT.sub('""', query)))


def load_display_names() -> set[str]:
    """Return every name that `/metrics` of some service has, once everything has been measured."""
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",), "gauge": ("",)}
    return {
        family.name + suffix
        for family in REGISTRY.collect()
        if family.name in {name.removesuffix("_total") for name in metrics.list_names()}
        for suffix in suffixes[family.type]
    }
