"""Describe an operation of the admin API by the signature of the function behind it."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from types import NoneType
from typing import Any, Literal, Unpack, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import fields

from agentchat.administration.admin_values import Page
from agentchat.directory.named_tokens import Role

PREFIX = "/admin/v1"
MAX_BODY_BYTES = 1024 * 1024

Shape = Literal["one", "page", "all", "lines"]


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A path or query parameter: `name` is the caller's name for it, `argument` the function's."""

    name: str
    argument: str
    schema: dict[str, Any]
    description: str
    required: bool


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """An operation. `gives` is the type of one item; `many` says if the answer is one, a page, all, or lines.

    `body` is the type of its JSON body, passed as `body_argument`; it may be omitted if all its members are
    optional. A Deletion is returned for a dry run, and with 202 by a route that `continues` after its answer.
    `role` is the least role of the caller. A caller who is limited to some accounts may use a route that
    names something of an account in its path, or whose function is `filtered` by the caller's accounts.
    An answer of a route that `shows_texts` of conversations is recorded in the audit log.
    """

    method: str
    path: str
    call: Callable[..., Awaitable[Any]]
    summary: str
    path_parameters: tuple[Parameter, ...]
    query: tuple[Parameter, ...]
    body: type | None
    body_argument: str
    optional: bool
    gives: type
    many: Shape
    status: int
    max_bytes: int
    continues: bool
    role: Role
    filtered: bool
    shows_texts: bool

    @property
    def address(self) -> str:
        """The complete path, with its parameters in braces."""
        return PREFIX + self.path


def route(
    method: str,
    path: str,
    call: Callable[..., Awaitable[Any]],
    *,
    status: int = 200,
    max_bytes: int = MAX_BODY_BYTES,
    continues: bool = False,
    role: Role | None = None,
    filtered: bool = False,
    shows_texts: bool = False,
) -> Route:
    """Describe `call(admin, ...)` as an operation.

    An argument is a path parameter if the path names it, the body if it is a struct, else a query parameter,
    as is each member of a TypedDict that the function unpacks.
    The first line of the docstring, up to " Raises ", is the summary. Without `role` a viewer may read and
    an owner may do everything else.
    """
    hints = get_type_hints(call, include_extras=True)
    arguments = [each for each in inspect.signature(call).parameters.values() if each.name != "admin"]
    for unpacked in [each for each in arguments if get_origin(hints[each.name]) is Unpack]:
        arguments.remove(unpacked)
        members = get_type_hints(get_args(hints[unpacked.name])[0], include_extras=True)
        hints |= members
        kind = inspect.Parameter.KEYWORD_ONLY
        arguments += [inspect.Parameter(name, kind, default=None) for name in members]
    bodies = [each for each in arguments if _is_struct(hints[each.name])]
    others = [
        _build_parameter(each, hints[each.name], in_path=f"{{{each.name}}}" in path)
        for each in arguments
        if each not in bodies
    ]
    body: type | None = hints[bodies[0].name] if bodies else None
    item, many = _read_return_type(hints["return"])
    return Route(
        method=method,
        path=path,
        call=call,
        summary=(call.__doc__ or "").partition("\n")[0].partition(" Raises ")[0],
        path_parameters=tuple(each for each in others if f"{{{each.name}}}" in path),
        query=tuple(each for each in others if f"{{{each.name}}}" not in path),
        body=body,
        body_argument=bodies[0].name if bodies else "",
        optional=body is None or (method == "POST" and not any(each.required for each in fields(body))),
        gives=item,
        many=many,
        status=status,
        max_bytes=max_bytes,
        continues=continues,
        role=role or (Role.VIEWER if method == "GET" else Role.OWNER),
        filtered=filtered,
        shows_texts=shows_texts,
    )


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _build_parameter(argument: inspect.Parameter, hint: Any, *, in_path: bool) -> Parameter:
    plain = hint
    if NoneType in get_args(hint):
        (plain,) = (each for each in get_args(hint) if each is not NoneType)
    schema = msgspec.json.schema(plain)
    if argument.default not in (inspect.Parameter.empty, None):
        schema["default"] = argument.default
    if argument.name.endswith("_id"):
        schema["format"] = "uuid"
    return Parameter(
        # A position in a list is the function's own; callers get an opaque cursor (RFC 9205 section 4.6).
        name="cursor" if argument.name == "after" else argument.name,
        argument=argument.name,
        description=schema.pop("description", ""),
        schema=schema,
        required=argument.default is inspect.Parameter.empty or in_path,
    )


def _read_return_type(hint: Any) -> tuple[type, Shape]:
    if get_origin(hint) is Page:
        return get_args(hint)[0], "page"
    if get_origin(hint) is tuple:
        return get_args(hint)[0], "all"
    if get_origin(hint) is AsyncIterator:
        return get_args(hint)[0], "lines"
    return hint, "one"
