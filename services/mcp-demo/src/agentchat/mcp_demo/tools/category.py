"""Register functions as tools of a category, by decorators.

The function's name is the tool's name, its docstring the description for the model, and its parameters the
input schema. It returns a JSON object. The choice of decorator sets the annotations of MCP.
"""

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

P = ParamSpec("P")
R = TypeVar("R")
Tool = Callable[P, Awaitable[R]]


class Category:
    """The tools of one category of `server`."""

    def __init__(self, name: str, server: MCPServer) -> None:
        self._name = name
        self._server = server

    def add_reader(self, title: str) -> Callable[[Tool[P, R]], Tool[P, R]]:
        """Add a tool that changes nothing."""
        return self._build_decorator(title, read_only=True, destructive=False, idempotent=True)

    def add_creator(self, title: str) -> Callable[[Tool[P, R]], Tool[P, R]]:
        """Add a tool that creates a record, and another one if it is called again."""
        return self._build_decorator(title, read_only=False, destructive=False, idempotent=False)

    def add_updater(self, title: str) -> Callable[[Tool[P, R]], Tool[P, R]]:
        """Add a tool that overwrites something; repeating the call changes nothing more."""
        return self._build_decorator(title, read_only=False, destructive=True, idempotent=True)

    def _build_decorator(
        self, title: str, *, read_only: bool, destructive: bool, idempotent: bool
    ) -> Callable[[Tool[P, R]], Tool[P, R]]:
        annotations = ToolAnnotations(
            title=title,
            read_only_hint=read_only,
            destructive_hint=destructive,
            idempotent_hint=idempotent,
            open_world_hint=False,
        )

        def add(function: Tool[P, R]) -> Tool[P, R]:
            description = " ".join((function.__doc__ or "").split())
            meta: dict[str, Any] = {"category": self._name}
            self._server.add_tool(
                function, title=title, description=description, annotations=annotations, meta=meta
            )
            return function

        return add
