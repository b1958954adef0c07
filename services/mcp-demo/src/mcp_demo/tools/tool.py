"""A tool: a name and a description that a model chooses by, two types, one effect and one function."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec

from mcp_demo.shop import Shop
from mcp_demo.tools.arguments import read

ToolCategory = Literal[
    "Order Status", "Business Intelligence", "Recommendations", "Customer Support", "Product Discovery"
]
CATEGORIES: tuple[ToolCategory, ...] = get_args(ToolCategory)
"""In the order of the specification."""

A = TypeVar("A", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)


class Effect(Enum):
    """What a call does to the shop's state; the annotations of MCP follow from it."""

    READS = "reads"
    """Changes nothing."""
    ADDS = "adds"
    """Adds a record, and another one when called again."""
    REPLACES = "replaces"
    """Overwrites something; the same call again changes nothing more."""


@dataclass(frozen=True)
class ShopTool:
    """One tool. `run` takes the shop and an instance of `arguments`, and returns one of `result`.

    `asks_for` are texts among its arguments that are requested from a person where a call leaves them out.
    """

    name: str
    title: str
    description: str
    category: ToolCategory
    effect: Effect
    arguments: type[msgspec.Struct]
    result: type[msgspec.Struct]
    run: Callable[[Shop, Any], msgspec.Struct]
    asks_for: tuple[str, ...] = ()

    def call(self, shop: Shop, arguments: dict[str, Any]) -> msgspec.Struct:
        """Run on arguments as a client sent them.

        Raises BadArgumentsError where they do not fit the input schema, ShopError where the shop refuses.
        """
        return self.run(shop, read(self.arguments, arguments))


def tool(
    category: ToolCategory, title: str, effect: Effect, *, asks_for: tuple[str, ...] = ()
) -> Callable[[Callable[[Shop, A], R]], ShopTool]:
    """Make a tool of `run(shop, arguments)`: its name is the tool's, its docstring what a model reads."""

    def made(run: Callable[[Shop, A], R]) -> ShopTool:
        types = get_type_hints(run)
        return ShopTool(
            name=run.__name__,
            title=title,
            description=" ".join((run.__doc__ or "").split()),
            category=category,
            effect=effect,
            arguments=types["arguments"],
            result=types["return"],
            run=run,
            asks_for=asks_for,
        )

    return made
