"""What a function means for the OpenAPI document, beyond what its types say.

Guards, `before_request`, providers of dependencies and handlers carry it. An operation is what Litestar makes
of its handler, with what these carry (`gateway.openapi.generated`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from litestar.handlers import HTTPRouteHandler

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "openapi_description"


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """`refusals` are codes of `contracts.errors` that the function ends requests with.

    `parameters` are Parameter Objects of what it reads strictly, where Litestar must not read it. `headers`
    are Header Objects: of a handler those of its success, of others those of all answers after them.
    `content` has the schemas of the success by media type, where its type does not have it; a type in them is
    a reference to its component. `examples` are values to encode, or texts, by their names.
    """

    refusals: tuple[str, ...] = ()
    parameters: tuple[Mapping[str, Any], ...] = ()
    headers: Mapping[str, Any] = {}
    content: Mapping[str, Any] = {}
    examples: Mapping[str, Any] = {}


def described(
    *refusals: str,
    parameters: Iterable[Mapping[str, Any]] = (),
    headers: Mapping[str, Any] | None = None,
    content: Mapping[str, Any] | None = None,
    examples: Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Describe a guard, a provider, or a handler (below Litestar's own decorator)."""
    description = Description(
        refusals=refusals,
        parameters=tuple(parameters),
        headers=headers or {},
        content=content or {},
        examples=examples or {},
    )

    def describe(function: F) -> F:
        setattr(function, _ATTRIBUTE, description)
        return function

    return describe


def parameter(
    where: str, name: str, description: str, *, required: bool = False, example: Any = None, **schema: Any
) -> dict[str, Any]:
    """A Parameter Object. Its value is a string where `schema`, the keywords of its schema, has no `type`."""
    found = {"name": name, "in": where, "schema": {"type": "string", **schema}}
    said = {"description": description, "required": required, "example": example}
    return found | {name: value for name, value in said.items() if value}


def event_of(*kinds: type, named: bool = False) -> dict[str, Any]:
    """The schema of a stream's event: its data is one of these, in JSON; `named`: with a line `event:`."""
    data = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"oneOf": [*kinds]} if len(kinds) > 1 else kinds[0],
    }
    properties = {"event": {"type": "string"}, "data": data} if named else {"data": data}
    return {"type": "object", "required": [*properties], "properties": properties}


def description_of(function: Any) -> Description:
    """What the function carries; nothing where it was not described."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Description) else Description()


def descriptions_before(handler: HTTPRouteHandler) -> Iterator[Description]:
    """Of the guards, of `before_request`, and of the providers of what is taken, each after those of what it
    takes itself.
    """
    yield from map(description_of, (*handler.resolve_guards(), handler.resolve_before_request()))
    providers = handler.resolve_dependencies()
    found: dict[str, Description] = {}

    def visit(names: Iterable[str]) -> None:
        for name in names:
            if name in providers and name not in found:
                visit(providers[name].parsed_fn_signature.parameters)
                found[name] = description_of(providers[name].dependency)

    visit(handler.parsed_fn_signature.parameters)
    yield from found.values()
