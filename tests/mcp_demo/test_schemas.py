"""The published schemas are the ones that are enforced."""

import contextlib
from typing import Any

import jsonschema
import pytest

from mcp_demo.shop import Shop
from mcp_demo.shop.errors import ShopError
from mcp_demo.tools import TOOLS, ShopTool
from mcp_demo.tools.arguments import BadArgumentsError, schema_of
from tests.mcp_demo.valid_calls import CALLS

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    1.0,
    1.5,
    -1,
    51,
    10**30,
    1e308,
    "",
    "x",
    " ",
    "\u0000",
    "1",
    "ORD-1001",
    "ORD-1001\n",
    "CUST-001",
    "PRD-101",
    "TCK-501",
    "TCK-0000001",
    "2026-11-01",
    "2026-13-01",
    "tents",
    "high",
    "AT",
    "é" * 101,
    "💥" * 4000,
    "y" * 4001,
    [],
    ["PRD-101"],
    ["PRD-101", "PRD-101"],
    ["PRD-101"] * 5,
    [["PRD-101"]],
    {},
    {"order_id": "ORD-1001"},
)


def refused(tool: ShopTool, shop: Shop, arguments: dict[str, Any]) -> bool:
    """Whether the arguments are refused; what the shop itself refuses comes later."""
    try:
        with contextlib.suppress(ShopError):
            tool.call(shop, arguments)
    except BadArgumentsError as error:
        return 20 < len(str(error)) < 500
    return False


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_arguments_are_refused_exactly_where_the_schema_refuses_them(tool: ShopTool, shop: Shop) -> None:
    schema = schema_of(tool.arguments)
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    base = CALLS[tool.name][0]
    tried = [base | {name: value} for name in (*schema["properties"], "surprise") for value in ODD]
    tried += [{name: base[name] for name in base if name != left_out} for left_out in base]

    for arguments in tried:
        assert refused(tool, shop, arguments) is not validator.is_valid(arguments), arguments
