"""Define the base of request bodies in which each field may be left out."""

from typing import Any

import msgspec


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change. A field that is left out is UNSET and stays as it is."""

    def __repr__(self) -> str:
        """Return the names of the changed fields only, since values may be secret."""
        return f"{type(self).__name__}({', '.join(self.to_dict())})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that were given, by name."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not msgspec.UNSET}
