"""Reads the shop's fixed records, which lie beside this module as JSON, one file a kind."""

from importlib import resources
from typing import TypeVar

import msgspec

T = TypeVar("T")


def load(name: str, kind: type[T]) -> tuple[T, ...]:
    """All records of `records/<name>.json`, checked against `kind`."""
    text = resources.files("mcp_demo.shop").joinpath("records", f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[kind, ...])  # type: ignore[valid-type]
