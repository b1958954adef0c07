"""What people say to a shop, and the demo's tools that answer it. Other tools are called by their names."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from model_demo.shop import words
from model_demo.wire.requests import ClientTool

_ORDERS = {
    "cancel_order": r"\bcancel\b",
    "update_shipping_address": r"\b(?:change|update|correct)\b.*\baddress\b",
    "add_ticket_comment": r"\b(?:add|comment|reply|answer)\b.*\bTCK-",
    "open_support_ticket": (
        r"\b(?:open|create|file|make|need)\b.*\b(?:ticket|case|complaint)\b|\bcomplain\b"
        r"|\b(?:speak|talk) to a (?:human|person|manager)|\bis (?:broken|damaged|defective)\b"
    ),
}
"""Tools that change something: only where the message orders that."""
_LOOKS = {
    "get_support_ticket": r"\bTCK-\d",
    "track_shipment": (
        r"\b(?:where|when|track\w*|arrive[sd]?|late)\b.*\b(?:ORD-|orders?\b|parcel|package|delivery|shipment)"
        r"|\bORD-.*\b(?:arrive[sd]?|late|delivered|shipped|parcel)\b"
    ),
    "recommend_for_customer": (
        r"\b(?:recommend\w*|suggest\w*|suits?|might like)\b.*(?:\bCUST-|\bcustomer\b|\bfor (?-i:[A-Z]))"
        r"|\bCUST-.*\b(?:need|like)\b"
    ),
    "list_customer_orders": (
        r"\b(?:orders|order history|bought)\b.*(?:\bCUST-|\bcustomer\b)|\bCUST-.*\b(?:orders?|buy)\b"
    ),
    "search_help_articles": (
        r"^(?!.*-\d).*(?:\bhow (?:long|do i|can i|does|much is)\b"
        r"|\b(?:do|can) (?:you|i) (?:ship|deliver|accept|take|pay|return)\b"
        r"|\b(?:polic\w+|rules?|warranty|guarantee|payment|refunds?|shipping cost)\b)"
    ),
    "get_order": r"\bORD-\d|\b(?:my|the|an) orders?\b",
    "compare_products": (
        r"\b(?:compare|differ\w*|better|cheaper)\b.*\bPRD-.*\bPRD-|\bPRD-\d+ (?:vs\.?|versus|or) PRD-"
    ),
    "find_similar_products": r"\b(?:similar|alternatives?|instead of|like)\b.*\bPRD-",
    "list_bought_together": r"\b(?:goes? (?:well )?with|accessor\w+|together|bundle)\b.*\bPRD-",
    "list_product_reviews": (
        r"\b(?:reviews?|opinions?|people say|complaints)\b.*\bPRD-|\bPRD-.*\b(?:reviews?|any good)\b"
    ),
    "get_product": r"\bPRD-\d",
    "find_customer": r"\bcustomers?\b|\bCUST-\d|@\w|\b(?:find|who is) (?-i:[A-Z][a-z]+ [A-Z])",
    "get_sales_trend": r"\btrends?\b|\b(?:sales|revenue)\b.*\b(?:per|each|every|by) (?:day|week|month)",
    "rank_products": (
        r"\b(?:top|best|worst|slow\w*|rank\w*|popular)\b.*\b(?:products?|sell\w+|revenue)\b|\bbestsellers?\b"
        r"|\bsell\w* (?:best|worst)\b"
    ),
    "get_sales_summary": r"\b(?:sales|revenue|turnover|earn(?:ed|ings)?|how many orders|order value)\b",
    "get_inventory_report": (
        r"\b(?:inventory|warehouse|(?:low|short) (?:in|on) stock|stock levels|running (?:out|low)|sold out)\b"
    ),
    "search_products": (
        r"\b(?:do|would) you (?:have|sell|offer|stock)\b|\b(?:looking for|search|buy|cheapest|in stock)\b"
        r"|\b(?:show|find|get) me\b|\bfind an?\b|\b(?:want|need|like) (?:an?|some|new)\b|\bgifts?\b"
        r"|\b(?:tents?|sleeping bags?|backpacks?|boots|shoes|jackets?|stoves?|headlamps?)\b"
        r"|\bwhich (?!one)(?:\w+ ){1,2}(?:are|is|have)\b"
    ),
}
"""Tools that only look. Of those that fit, the first that is offered is taken."""
_INTENTS = [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in (_ORDERS | _LOOKS).items()]
_NO_ORDER = re.compile(
    r"\b(?:can i|could i|may i|how do i|how can i|how to|don'?t|do not|never)\b", re.IGNORECASE
)
_SPLIT = re.compile(r"[.!?;](?=\s|$)|\n+|,?\s+(?:and then|and also|and|then|also|plus)\s+|,\s+(?=[A-Za-z])")
_NOUNS = {"order": "ORD", "customer": "CUST", "product": "PRD", "ticket": "TCK"}


class Intent(NamedTuple):
    """A part of the message, and the tool that it asks for."""

    tool: ClientTool
    text: str


def is_order(tool: ClientTool) -> bool:
    return tool.name in _ORDERS


def with_ids(text: str) -> str:
    """The text with `order 1028` as ORD-1028."""
    for noun, prefix in _NOUNS.items():
        text = re.sub(
            rf"\b{noun}s? (?:number |no\.? )?#?(\d{{3,6}})\b", rf"{prefix}-\1", text, flags=re.IGNORECASE
        )
    return text


def intents_of(message: str, offered: list[ClientTool]) -> list[Intent]:
    """What the message asks for, in order; a part that asks for nothing belongs to its neighbour."""
    of_all = next(_meant(message, offered), None)
    if of_all is not None and of_all.name == "compare_products":
        return [Intent(of_all, message)]
    found: list[Intent] = []
    before = ""
    for text in filter(str.strip, _SPLIT.split(message)):
        tool = next(_meant(text, offered), None) if words.stems(words.ID.sub(" ", text)) else None
        if found and (tool is None or tool.name == found[-1].tool.name):
            found[-1] = Intent(found[-1].tool, f"{found[-1].text} and {text}")
        elif tool is not None:
            found.append(Intent(tool, f"{before} {text}".strip()))
        else:
            before = f"{before} {text}"
    return found or ([Intent(of_all, message)] if of_all else [])


def _meant(text: str, offered: list[ClientTool]) -> Iterator[ClientTool]:
    """The tools that a text asks for, the likeliest first."""
    by_name = {tool.name: tool for tool in offered}
    yield from (tool for tool in offered if tool.name in text)
    for name, pattern in _INTENTS:
        if name in by_name and pattern.search(text) and not (name in _ORDERS and _NO_ORDER.search(text)):
            yield by_name[name]
