"""A shop's agent as a language model answers it: each reply in words of its own, by rules of its prompt."""

import random
from typing import Any

from contracts.replay_messages import AskedTool
from tests.evals.done_again import Done, call, case, result

SIGN_OFF = {"en": "Reply with STOP to leave this chat.", "de": "Mit STOP verlassen Sie diesen Chat."}
"""A rule of the prompt: every reply ends with it."""

_THINGS = {
    "en": ("boots", "tent", "lamp", "kettle", "gloves", "backpack", "stove", "rope", "map", "compass"),
    "de": (
        "Stiefel",
        "Zelt",
        "Lampe",
        "Kessel",
        "Handschuhe",
        "Rucksack",
        "Kocher",
        "Seil",
        "Karte",
        "Kompass",
    ),
}
_SAID: dict[str, dict[str, tuple[str, ...]]] = {
    "en": {
        "order": (
            "Your order {order} with the {thing} is on its way and should arrive on {day} May.",
            "Good news: order {order} left our warehouse, so expect the {thing} on {day} May!",
            "I had a look at {order}. The {thing} was shipped, and delivery is planned for {day} May.",
            "The {thing} from {order} is with the carrier now; it gets to you around {day} May.",
        ),
        "search": (
            "We have a {thing} for ${price}, which many customers like for long trips.",
            "How about this {thing}? It costs ${price} and is in stock.",
            "I found one {thing} that fits: ${price}, available right away.",
            "There is a {thing} at ${price}. It is light and easy to pack.",
        ),
        "policy": (
            "You can return a {thing} within {day} days, as long as it was not used [1].",
            "Returns of a {thing} are free for {day} days; keep the receipt, please [1].",
            "According to our rules [1] an unused {thing} may come back for {day} days.",
        ),
        "talk": (
            "Hello! What can I do for you today? Perhaps a new {thing}?",
            "Hi there, nice to see you. Are you looking for a {thing}?",
            "Welcome! I am happy to help, with a {thing} or anything else.",
        ),
    },
    "de": {
        "order": (
            "Ihre Bestellung {order} mit {thing} ist unterwegs und kommt voraussichtlich am {day}. Mai an.",
            "Gute Nachrichten: {order} hat unser Lager verlassen, {thing} sollte am {day}. Mai da sein!",
            "Ich habe {order} nachgesehen. Der Artikel {thing} wurde versandt, geplant ist der {day}. Mai.",
        ),
        "search": (
            "Wir haben {thing} für {price} Euro, das nehmen viele auf lange Reisen mit.",
            "Wie wäre es damit: {thing} kostet {price} Euro und ist sofort lieferbar.",
            "Gefunden habe ich {thing} zum Preis von {price} Euro, leicht und gut zu packen.",
        ),
        "policy": (
            "Sie können {thing} innerhalb von {day} Tagen zurückgeben, solange nichts benutzt wurde [1].",
            "Rückgaben von {thing} sind {day} Tage lang kostenlos, bitte heben Sie den Beleg auf [1].",
        ),
        "talk": (
            "Guten Tag! Was kann ich heute für Sie tun? Vielleicht {thing}?",
            "Hallo, schön, dass Sie da sind. Suchen Sie nach {thing}?",
        ),
    },
}  # fmt: skip
_NOISE = 0.02
"""So often a model does something else by itself: it says less, or calls another tool."""
_TOOLS = {"order": "get_order", "search": "search_products", "policy": "", "talk": ""}


class Shop:
    """`count` cases. What they are about comes of a seed; how it is said of another one."""

    def __init__(self, count: int = 200) -> None:
        rng = random.Random(22)
        self._facts: list[dict[str, Any]] = [
            {
                "kind": rng.choices(("order", "search", "policy", "talk"), (5, 3, 2, 1))[0],
                "language": rng.choices(("en", "de"), (3, 1))[0],
                "thing": rng.randrange(10),
                "order": f"ORD-{rng.randrange(1000, 9999)}",
                "day": rng.randrange(1, 30),
                "price": rng.randrange(10, 200),
            }
            for _ in range(count)
        ]

    def done(self, seed: int, **planted: Any) -> list[Done]:
        """The cases and what they came to, said by a model that has this seed. `planted` is what is wrong
        with it, as `reply` and `calls` have it.
        """
        recorded, again = random.Random(0), random.Random(seed)
        found: list[Done] = []
        for number, facts in enumerate(self._facts):
            before = self.reply(facts, recorded)
            calls = self.calls(facts, recorded)
            new = result(
                f"c{number:04}",
                self.reply(facts, again, **planted),
                before,
                calls=self.calls(facts, again, **planted),
                recorded_calls=calls,
            )
            slices = {"agent": "shop", "language": facts["language"], "tools": _TOOLS[facts["kind"]]}
            found.append((case(new.case_id, slices=slices, passages=1), (new,)))
        return found

    def texts(self, rng: random.Random) -> list[str]:
        """The replies without what the prompt's rule adds."""
        return [self.reply(facts, rng, forgets_rule=True) for facts in self._facts]

    def reply(
        self,
        facts: dict[str, Any],
        rng: random.Random,
        *,
        forgets_rule: bool = False,
        in_english: bool = False,
        **_: Any,
    ) -> str:
        language = "en" if in_english else facts["language"]
        text = rng.choice(_SAID[language][facts["kind"]])
        said = text.format(**facts | {"thing": _THINGS[language][facts["thing"]]})
        if rng.random() < _NOISE:
            said = said.split(",", maxsplit=1)[0]
        return said if forgets_rule else f"{said} {SIGN_OFF[language]}"

    def calls(
        self, facts: dict[str, Any], rng: random.Random, *, drops_argument: bool = False, **_: Any
    ) -> list[AskedTool]:
        if rng.random() < _NOISE:
            return [call("list_orders")]
        match facts["kind"]:
            case "order":
                return [call("get_order", **({} if drops_argument else {"order_id": facts["order"]}))]
            case "search":
                thing = _THINGS["en"][facts["thing"]]
                query = rng.choice((f"{thing} for hiking", f"hiking {thing}", f"good {thing} for hiking"))
                return [call("search_products", query=query)]
            case _:
                return []
