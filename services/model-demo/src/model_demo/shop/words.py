"""Words as the assistant compares them: lower case, without endings, with the shop's synonyms."""

import re

_WORD = re.compile(r"[A-Za-z][A-Za-z']*|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def listed(text: str) -> frozenset[str]:
    """A set of words, written as one text."""
    return frozenset(text.split())


STOP = listed(
    "a an and any are as at be been but by can could did do does for from had has have hello hey hi how i"
    " if i'd i'll i'm in into is it it's its just let like me my of off on one or our out please so some"
    " something than thank that that's the their them then there these they this those to too up us was we"
    " were what what's when where where's which who why will with would yes you your about also all am"
    " anything"
)
"""Words that say nothing about a topic."""

QUESTIONS = listed("where when")

COMMANDS = listed(
    "show find search look looking want need buy get list give tell recommend suggest check see help browse"
    " got sell display fetch product products item items stuff thing things know information details more"
    " kind kinds available cheapest cheap best good nice great shop store"
)
"""Words that ask for a search, and are not what is searched for."""

_SYNONYMS = {
    "where": "status track ship",
    "when": "deliver arriv",
    "arriv": "status track deliver estimat",
    "eta": "status track deliver estimat",
    "package": "track ship order",
    "parcel": "track ship order",
    "late": "status track deliver",
    "suggest": "recommend",
    "gift": "recommend",
    "idea": "recommend",
    "stock": "availabil",
    "availabl": "availabil stock",
    "cost": "pric",
    "cheap": "pric search find product",
    "complain": "ticket support issu",
    "complaint": "ticket support issu",
    "broken": "ticket support issu",
    "damag": "ticket support issu",
    "problem": "ticket support issu",
    "human": "escalat",
    "person": "escalat",
    "warrant": "polic faq knowledg articl",
    "polic": "faq knowledg",
    "sale": "revenu",
    "revenu": "sale",
    "turnover": "sale revenu",
    "earn": "sale revenu",
    "popular": "top best seller trend",
    "best": "top seller",
    "top": "best seller",
    "trend": "popular",
    "hot": "trend popular",
    "review": "rat opinion",
    "opinion": "review rat",
    "versu": "compar",
    "vs": "compar",
    "differ": "compar",
    "better": "compar",
    "alternativ": "similar",
    "instead": "similar alternativ",
    "accessor": "complement together bundl",
    "money": "refund",
    "back": "return refund",
    "client": "customer",
    "buyer": "customer",
    "bought": "order purchas histor",
    "purchas": "order histor",
}
SYNONYMS = {word: tuple(others.split()) for word, others in _SYNONYMS.items()}
"""Stem to the stems that it may stand for."""


def split(text: str) -> list[str]:
    """The words of a text in order; `snake_case` and `camelCase` come apart."""
    return _WORD.findall(_CAMEL.sub(" ", text.replace("_", " ").replace("-", " ")))


def stem(word: str) -> str:
    """A word without its ending, so that `shipped`, `shipping` and `shipment` are one."""
    word = word.lower().removesuffix("'s").replace("'", "")
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, least in (("ation", 4), ("ment", 3), ("ing", 3), ("ed", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sz":
                word = word[:-1]
            break
    if len(word) > 4 and word[-1] in "ey":
        word = word[:-1]
    return word


def stems(text: str) -> list[str]:
    """The stems of a text's words, in order."""
    return [stem(word) for word in split(text)]


def asked(text: str) -> list[str]:
    """The topics and the question words: in a message, and in the questions that a description quotes."""
    return [stem(word) for word in split(text) if word.lower() in QUESTIONS or word.lower() not in STOP]


def topics(text: str) -> list[str]:
    """The stems of the words that say something about a topic."""
    return [stem(word) for word in split(text) if word.lower() not in STOP]


def label(name: str) -> str:
    """An identifier as words: `order_id` is "order id"."""
    return " ".join(word.lower() for word in split(name))


def enumerated(things: list[str]) -> str:
    """`a, b and c`."""
    return things[0] if len(things) == 1 else f"{', '.join(things[:-1])} and {things[-1]}"
