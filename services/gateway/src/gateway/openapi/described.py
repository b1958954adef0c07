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
    `content` has the schemas of the success by media type, where its type does not have it, `examples` values
    to encode, or texts, by their names.
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
    """Describe a guard, a provider, or a handler (below Litestar's own decorator); twice adds up."""

    def describe(function: F) -> F:
        before = description_of(function)
        added = Description(
            refusals=(*refusals, *before.refusals),
            parameters=(*parameters, *before.parameters),
            headers={**before.headers, **(headers or {})},
            content=content or before.content,
            examples=examples or before.examples,
        )
        setattr(function, _ATTRIBUTE, added)
        return function

    return describe


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
