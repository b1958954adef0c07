"""Define the rules that replace personal values in cases, and the rules that a new suite has."""

from typing import Annotated

import msgspec

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class RedactionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule for replacing values before a case is written: either a `pattern` or a `field`.

    `pattern` is a regular expression that is searched in every text. `field` is a place in a tool's calls
    (`get_order.input.email`, `get_order.output.items.*.price`) or in the metadata (`metadata.customer`). In
    `replacement`, `{n}` is the number of the value in its case.
    """

    name: _Text | None = None
    pattern: _Text | None = None
    field: _Text | None = None
    replacement: str | None = None

    def __post_init__(self) -> None:
        if (self.pattern is None) == (self.field is None):
            raise ValueError("Expected either `pattern` or `field`")

    @property
    def label(self) -> str:
        """The rule's name in cases and messages."""
        return self.name or self.field or self.pattern or ""


DEFAULT_RULES = r"""  - name: email
    pattern: '(?<![\w.+''-])[\w.+''-]+(@|%40)[\w-]+(\.[\w-]+)+'
    replacement: 'person{n}@example.com'
  - name: phone
    pattern: '(?<![\w+])\+[0-9][0-9 ()./-]{6,}[0-9]'
  - name: card
    pattern: '(?<![\w-])([2-6]\d{3}([ -]?)\d{4}\2\d{4}\2\d{1,7}|3[47]\d\d[ -]\d{6}[ -]\d{5})(?![\w-])'
  - name: iban
    pattern: '(?<!\w)[A-Z]{2}[0-9]{2}( ?[A-Z0-9]{4}){3,7}( ?[A-Z0-9]{1,3})?(?!\w)'
"""
"""The list `redact` of a new `suite.yaml`."""
