"""The style sheets have no rules that no page uses."""

import re

from agentchat.console.frame import assets, rendering

_OF_LIBRARIES = re.compile(r"u-.*|uplot")
_BUILT = re.compile(r"field-.*|compaction")
"""Classes that templates build from a value: the kind of a field, of a bar."""


def test_every_class_is_used_by_a_page() -> None:
    sources = [*rendering.FOLDER.rglob("*.html"), *assets.FOLDER.glob("*.js")]
    sources += assets.FOLDER.parent.rglob("*.py")
    words = set(re.findall(r"[\w-]+", "".join(path.read_text() for path in sources)))
    rules = "".join(path.read_text() for path in assets.FOLDER.glob("*.css"))
    selectors = re.sub(r"/\*.*?\*/|\{[^{}]*\}", " ", rules, flags=re.DOTALL)
    unused = set(re.findall(r"\.([a-z][\w-]*)", selectors)) - words
    assert {name for name in unused if not (_OF_LIBRARIES.fullmatch(name) or _BUILT.fullmatch(name))} == set()
