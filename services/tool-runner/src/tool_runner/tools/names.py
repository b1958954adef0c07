"""The names that a model sees: fit for the provider, one for each tool, the same every time."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence

MAX_LENGTH = 64  # ^[a-zA-Z0-9_-]{1,64}$ is what every provider takes: OpenAI 64, Anthropic 128
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8

QualifiedName = tuple[str, str]
"""A server's name and a tool's own name."""


def visible_names(tools: Sequence[QualifiedName]) -> Mapping[QualifiedName, str]:
    """A name for each tool: the tool's own, `<server>_<tool>` where servers collide.

    Where even those are the same (two names that differ only in unfit characters), a digest of the tool is
    added. The order of `tools` makes no difference.
    """
    names = {tool: _fit(tool[1]) for tool in tools}
    for tool in _colliding(names):
        names[tool] = _fit("_".join(tool))
    for tool in _colliding(names):
        names[tool] = _ended(names[tool], "\0".join(tool))
    return names


def _colliding(names: Mapping[QualifiedName, str]) -> list[QualifiedName]:
    counts = Counter(names.values())
    return [tool for tool, name in names.items() if counts[name] > 1]


def _fit(name: str) -> str:
    fit = _UNFIT.sub("_", name)
    return fit if len(fit) <= MAX_LENGTH else _ended(fit, name)


def _ended(name: str, source: str) -> str:
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_LENGTH - _DIGEST - 1]}_{digest}"
