"""The base of structs whose fields may each be left out of a request."""

from typing import Any

import msgspec


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change; what is left out is UNSET and stays."""

    def __repr__(self) -> str:
        """The names of the changed fields only: values may be secret."""
        return f"{type(self).__name__}({', '.join(self.to_dict())})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that were given, by name."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not msgspec.UNSET}
