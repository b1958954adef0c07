"""The names that a model sees: fit for the provider, one for each tool, the same every time."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence

MAX_LENGTH = 64  # ^[a-zA-Z0-9_-]{1,64}$ is what every provider takes: OpenAI 64, Anthropic 128
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8

Place = tuple[str, str]
"""A server's name and a tool's own name."""


def visible_names(places: Sequence[Place]) -> Mapping[Place, str]:
    """A name for each place: the tool's own, `<server>_<tool>` where servers collide.

    Where even those are the same (two names that differ only in unfit characters), a digest of the place is
    added. The order of `places` makes no difference.
    """
    names = {place: _fit(place[1]) for place in places}
    for place in _colliding(names):
        names[place] = _fit("_".join(place))
    for place in _colliding(names):
        names[place] = _ended(names[place], "\0".join(place))
    return names


def _colliding(names: Mapping[Place, str]) -> list[Place]:
    counts = Counter(names.values())
    return [place for place, name in names.items() if counts[name] > 1]


def _fit(name: str) -> str:
    fit = _UNFIT.sub("_", name)
    return fit if len(fit) <= MAX_LENGTH else _ended(fit, name)


def _ended(name: str, source: str) -> str:
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_LENGTH - _DIGEST - 1]}_{digest}"
