"""Map messages to the demo shop's tools and their inputs, by a table of rules."""

import re
from typing import Any, NamedTuple

from agentchat.model_demo.assistant import schema_values, words
from agentchat.model_demo.model_request import Tool

_MOST_CALLS = 6
_QUERY = (
    r"\b(?:for|me|have|sell|find)\s+(?:an? |any |some )?[\"“]?(?P<query>[\w' -]{2,60}?)"
    r"(?:\s+(?:that|under|below)\b|[.?!\"”]|$)"
)
_MAX_PRICE = r"\b(?:under|below|at most) [$€£]?\s?(?P<max_price>\d[\d,]*(?:\.\d+)?)"
_CUSTOMER = r"(?P<query>[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+|\bCUST-\d+|(?<=customer )[A-Z]\w+(?: [A-Z]\w+)?)"
_LIMIT = r"\b(?:top|best|last|recommend|suggest) (?P<limit>\d{1,2})\b"
_ADDRESS = (
    r"\bto (?P<street>[A-Z][^,]{1,60}),? (?P<postal_code>\d{4,6}) (?P<city>[A-Z][^\s,]+)"
    r"(?:,? (?P<country>[A-Z]{2})\b)?"
)
_COMMENT = r":\s+(?P<message>(?P<subject>[^\n.!?]{3,80})[^\n]*)"


class ShopRule(NamedTuple):
    """A rule: a part of the message that matches `says` asks for `tool`.

    The groups of `inputs` are properties of the input, besides ids, which are found by their kind. A tool
    that `changes` something is called only if the message orders it.
    """

    tool: str
    says: str
    inputs: tuple[str, ...] = ()
    changes: bool = False


RULES = (
    ShopRule("cancel_order", r"\bcancel\b", (r"\bbecause (?P<reason>[^\n]{2,200})",), changes=True),
    ShopRule("update_shipping_address", r"\b(?:change|update)\b.*\baddress\b", (_ADDRESS,), changes=True),
    ShopRule("add_ticket_comment", r"\b(?:add|comment|reply)\b.*\bTCK-", (_COMMENT,), changes=True),
    ShopRule("open_support_ticket", r"\bopen\b.*\bticket\b", (_COMMENT,), changes=True),
    ShopRule("get_support_ticket", r"\bTCK-\d"),
    ShopRule(
        "track_shipment",
        r"\b(?:where|when|track|late)\b.*\b(?:ORD-|order\b|parcel\b|it\b)|\bORD-.*\b(?:late|arrived?)\b",
    ),
    ShopRule("recommend_for_customer", r"\b(?:recommend|suggest|suits?)\b.*\bCUST-", (_LIMIT,)),
    ShopRule("list_customer_orders", r"\borders\b.*\bCUST-", (_LIMIT,)),
    ShopRule("get_order", r"\bORD-\d|\bmy order\b"),
    ShopRule("compare_products", r"\b(?:compare|difference)\b.*\bPRD-.*\bPRD-"),
    ShopRule("find_similar_products", r"\b(?:similar|alternatives?)\b.*\bPRD-", (_MAX_PRICE,)),
    ShopRule("list_product_reviews", r"\breviews?\b.*\bPRD-"),
    ShopRule("get_product", r"\bPRD-\d"),
    ShopRule("find_customer", r"@\w|\bCUST-\d|\bcustomer [A-Z]", (_CUSTOMER,)),
    ShopRule(
        "get_sales_trend",
        r"\bsales\b.*\b(?:per|chart)\b|\bchart\b.*\bsales\b",
        (r"\bper (?P<interval>day|week|month)\b", r"\b(?P<chart>chart)\b"),
    ),
    ShopRule("rank_products", r"\b(?:best|top)\b.*\b(?:products?|sellers?)\b|\bbestsellers?\b", (_LIMIT,)),
    ShopRule("get_sales_summary", r"\b(?:sales|revenue)\b"),
    ShopRule("get_inventory_report", r"\b(?:inventory|low on stock)\b"),
    ShopRule(
        "search_help_articles", r"\b(?:how (?:do|can) i|policy|warranty|refunds?)\b", (r"(?P<query>.+)",)
    ),
    ShopRule(
        "search_products",
        r"\b(?:do you (?:have|sell)|looking for|search for|find|show me)\b",
        (_QUERY, _MAX_PRICE, r"\bin (?P<in_stock_only>stock)\b"),
    ),
)
"""The first matching rule whose tool is offered applies."""
_KINDS = {"order_id": "ORD-", "customer_id": "CUST-", "product_id": "PRD-", "ticket_id": "TCK-"}
_NO_ORDER = re.compile(r"\b(?:can i|could i|may i|how do i|how can i|don'?t|do not|never)\b", re.IGNORECASE)
_SPLIT = re.compile(r"[.!?;](?=\s|$)|\n+|,?\s+(?:and|then|also)\s+")


class Wish(NamedTuple):
    """A tool that a message asks for, with an input for each call and the missing properties."""

    tool: Tool
    inputs: list[dict[str, Any]]
    missing: list[str]


def is_changing(tool: Tool) -> bool:
    """Return True if the tool changes something in the shop."""
    return any(rule.changes for rule in RULES if rule.tool == tool.name)


def find_wishes(message: str, offered: list[Tool], known_ids: list[str]) -> list[Wish]:
    """Return what the message asks for, in order.

    A part that asks for nothing extends the last. `known_ids` are the ids mentioned before, the latest first.
    A tool that is not the shop's is asked for by its name, and called with an input that is valid.
    """
    message = re.sub(r"\border #?(\d{3,6})\b", r"ORD-\1", message, flags=re.IGNORECASE)
    found: list[tuple[Tool, ShopRule, str]] = []
    for part in filter(str.strip, _SPLIT.split(message)):
        wished = _find_rule(part, offered) if words.find_stems(words.ID.sub(" ", part)) or not found else None
        if wished is not None and not (found and found[-1][0].name == wished[0].name):
            found.append((*wished, part))
        elif found:
            found[-1] = (*found[-1][:2], f"{found[-1][2]} and {part}")
    whole = _find_rule(message, offered)
    if whole is not None and (not found or whole[1].tool == "compare_products"):
        found = [(*whole, message)]
    return [
        _build_wish(tool, rule, part, message, known_ids)
        if rule in RULES
        else Wish(tool, [fill_input(tool, part, known_ids)], [])
        for tool, rule, part in found
    ]


def fill_input(tool: Tool, message: str, known_ids: list[str]) -> dict[str, Any]:
    """Return an input for a forced tool: values of the message, else the smallest valid ones."""
    rule = next((rule for rule in RULES if rule.tool == tool.name), ShopRule(tool.name, ""))
    given = _build_wish(tool, rule, message, message, known_ids).inputs[0]
    root = tool.input_schema
    return schema_values.complete(given, schema_values.resolve(root, root), root, message)


def _find_rule(text: str, offered: list[Tool]) -> tuple[Tool, ShopRule] | None:
    by_name = {tool.name: tool for tool in offered}
    for tool in offered:
        if tool.name in text:
            return tool, next((rule for rule in RULES if rule.tool == tool.name), ShopRule(tool.name, ""))
    for rule in RULES:
        is_wished = rule.tool in by_name and re.search(rule.says, text, re.IGNORECASE)
        if is_wished and not (rule.changes and _NO_ORDER.search(text)):
            return by_name[rule.tool], rule
    return None


def _build_wish(tool: Tool, rule: ShopRule, part: str, message: str, known_ids: list[str]) -> Wish:
    """Fill the inputs from the part, else from the whole message."""
    root = tool.input_schema
    properties = {
        name: schema_values.resolve(each, root) for name, each in root.get("properties", {}).items()
    }
    required = root.get("required", ())
    given: dict[str, Any] = {}
    for pattern in rule.inputs:
        if match := re.search(pattern, part) or re.search(pattern, message):
            given |= {
                name: _convert_value(value, properties[name]["type"])
                for name, value in match.groupdict().items()
                if value is not None and name in properties
            }
    several: tuple[str, list[str]] | None = None
    for name in properties:
        kind = _KINDS.get(name.removesuffix("s"))
        ids = [
            each for each in words.find_ids(part) or words.find_ids(message) if each.startswith(kind or " ")
        ]
        if not ids and name in required:
            ids = [each for each in known_ids if each.startswith(kind or " ")][:1]
        if ids:
            given[name] = ids if properties[name]["type"] == "array" else ids[0]
        if len(ids) > 1 and properties[name]["type"] != "array":
            several = (name, ids[:_MOST_CALLS])
    for name in required:
        if options := schema_values.list_choices(properties[name]):
            given.setdefault(name, options[-1])  # such as "other"
    missing = [name for name in required if name not in given]
    return Wish(tool, [given | {several[0]: each} for each in several[1]] if several else [given], missing)


def _convert_value(value: str, kind: str | None) -> Any:
    match kind:
        case "integer" | "number":
            number = float(value.replace(",", ""))
            return int(number) if number.is_integer() else number
        case "boolean":
            return True
        case _:
            return value.strip(" .!")
