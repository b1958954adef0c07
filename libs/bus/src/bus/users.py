"""The users of NATS: which subjects, streams and consumers each may use, and the configuration that says so.

The embedded server and production are configured from this one table. `provisioner` alone may make, change
and empty streams and consumers. What NATS does not check is where an answer goes (decision 25), so those whom
we do not run, `analytics`, have an account of their own, from which nothing but their consumer is reached.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

import msgspec

from bus.streams import ADVISORIES, ANALYTICS, CONSUMERS
from bus.streams import NAMES as STREAM_NAMES
from contracts.subjects import (
    CANCELS,
    DEAD,
    EVENTS,
    MODELS_CHECK,
    REQUESTS,
    RESULTS,
    TOOLS,
    TOOLS_AUTHORIZE,
    TOOLS_AUTHORIZED,
    TOOLS_CHECK,
    TOOLS_LIST,
    TRACES,
    WHAT_IF,
)

PROVISIONER = "provisioner"
OPERATOR = "operator"
FEED_PREFIX = "feed"
"""JetStream's API as `analytics` sees it, where others have `$JS.API`."""

_QUEUES = (REQUESTS, TOOLS, ADVISORIES)
_READABLE = tuple(name for name in STREAM_NAMES if name not in _QUEUES)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """What it may publish, `but_not` some of it, and subscribe to, in addition to its own inbox."""

    publish: tuple[str, ...]
    but_not: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()


def _read(*streams: str) -> tuple[str, ...]:
    calls = ("DIRECT.GET.{}", "DIRECT.GET.{}.>", "STREAM.INFO.{}")
    return tuple(f"$JS.API.{call.format(stream)}" for stream in streams for call in calls)


def _work(stream: str) -> tuple[str, ...]:
    place = f"{stream}.{CONSUMERS[stream]}"
    return (f"$JS.API.CONSUMER.MSG.NEXT.{place}", f"$JS.API.CONSUMER.INFO.{place}", f"$JS.ACK.{place}.>")


def _delete(*streams: str) -> tuple[str, ...]:
    return tuple(f"$JS.API.STREAM.MSG.DELETE.{stream}" for stream in streams)


def _looks(stream: str) -> tuple[str, ...]:
    return (f"INFO.{stream}.*", f"NAMES.{stream}", f"LIST.{stream}")


def _consume(*streams: str) -> tuple[str, ...]:
    calls = ("CREATE.{0}", "CREATE.{0}.>", "DURABLE.CREATE.{0}.*", "MSG.NEXT.{0}.*", "DELETE.{0}.*")
    made = (f"$JS.API.CONSUMER.{call.format(stream)}" for stream in streams for call in calls)
    seen = (f"$JS.API.CONSUMER.{call}" for stream in streams for call in _looks(stream))
    # A consumer that is pushed to, as client libraries' ordered ones are, stands still without flow control.
    answers = (f"$JS.{kind}.{stream}.>" for stream in streams for kind in ("ACK", "FC"))
    return (*made, *seen, *answers)


def _change(stream: str) -> tuple[str, ...]:
    """What changes or deletes the consumer that is the system's own."""
    name = CONSUMERS[stream]
    calls = ("CREATE.{0}.{1}", "CREATE.{0}.{1}.>", "DURABLE.CREATE.{0}.{1}", "DELETE.{0}.{1}")
    return tuple(f"$JS.API.CONSUMER.{call.format(stream, name)}" for call in calls)


_REPLIES = ("_INBOX.>", "_INBOX_gateway.>", "_INBOX_console.>", f"_INBOX_{OPERATOR}.>")
"""Of those who ask the workers: `_INBOX` is an operator's who does not name an inbox."""

USERS: Mapping[str, User] = MappingProxyType(
    {
        "gateway": User(
            publish=(
                *("chat.requests.*", "chat.control.cancel.*", "chat.commands.*", TOOLS_CHECK, MODELS_CHECK),
                *(TOOLS_AUTHORIZE, TOOLS_AUTHORIZED),
                *_read(TRACES),
            ),
            subscribe=("chat.traces.*",),
        ),
        "orchestrator": User(
            publish=(
                *("chat.traces.*", "chat.tools.requests.*", "chat.tools.results.*.*", TOOLS_LIST),
                *("chat.control.cancel.*", "chat.requests.*", "chat.dead.*", *_REPLIES),
                *_work(REQUESTS),
                *_work(ADVISORIES),
                *_read(TRACES, RESULTS, CANCELS, REQUESTS, TOOLS),
                *_delete(REQUESTS, TOOLS),
            ),
            subscribe=(
                *("chat.traces.*", "chat.tools.results.*.*", "chat.control.cancel.*"),
                *("chat.commands.*", MODELS_CHECK, WHAT_IF),
            ),
        ),
        "tool-runner": User(
            publish=(
                *("chat.tools.results.*.*", "chat.dead.*", *_REPLIES, "_INBOX_orchestrator.>"),
                *_work(TOOLS),
                *_read(RESULTS, CANCELS),
            ),
            subscribe=(
                *("chat.control.cancel.*", TOOLS_LIST, TOOLS_CHECK),
                *(TOOLS_AUTHORIZE, TOOLS_AUTHORIZED),
            ),
        ),
        "projector": User(
            publish=(
                *("chat.events.*.*", "chat.requests.*"),
                *_read(EVENTS, DEAD, REQUESTS, TOOLS, TRACES, RESULTS, CANCELS),
                *_delete(EVENTS, DEAD, REQUESTS, TOOLS, RESULTS),
                f"$JS.API.STREAM.PURGE.{TRACES}",
            ),
        ),
        # It serves the administration as a gateway does, and follows runs.
        "console": User(
            publish=(
                *("chat.requests.*", "chat.control.cancel.*", "chat.commands.*", WHAT_IF),
                *(TOOLS_LIST, TOOLS_CHECK, MODELS_CHECK),
                *(TOOLS_AUTHORIZE, TOOLS_AUTHORIZED),
                *_read(*STREAM_NAMES),
                *(f"$JS.API.CONSUMER.{call}" for name in _QUEUES for call in _looks(name)),
            ),
            subscribe=("chat.traces.*",),
        ),
        OPERATOR: User(
            publish=(
                *("chat.commands.*", TOOLS_LIST, TOOLS_CHECK, TOOLS_AUTHORIZE),
                *(MODELS_CHECK, WHAT_IF),
                *("$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.MSG.GET.*"),
                *_read(*STREAM_NAMES),
                *(f"$JS.API.CONSUMER.{call}" for name in _QUEUES for call in _looks(name)),
                *_consume(*_READABLE),
            ),
            but_not=_change(EVENTS),
            subscribe=("chat.>", "_INBOX.>"),
        ),
        PROVISIONER: User(
            publish=("$JS.API.>", "chat.events.*.*", "chat.tools.results.*.*", "chat.control.cancel.*")
        ),
    }
)

_FEED = (
    f"CONSUMER.MSG.NEXT.{EVENTS}.{ANALYTICS}",
    f"CONSUMER.INFO.{EVENTS}.{ANALYTICS}",
)

NAMES = (*USERS, ANALYTICS)
"""Every user that has a password."""


def user_of(url: str) -> str | None:
    """Which of them an address is of; None for any other user, who may do what its server lets it."""
    name = urlsplit(url.split(",")[0].strip()).username
    return name if name in USERS else None


def may_provision(user: str | None) -> bool:
    """Where nobody has set up these users, every process makes the streams."""
    return user is None or user == PROVISIONER


def inbox_prefix(user: str | None) -> str:
    """Nobody else may listen there."""
    return f"_INBOX_{user}" if user else "_INBOX"


def configuration(password: Callable[[str], str]) -> str:
    """The `accounts` block of nats-server; `password` gives a user's, as it is to stand there."""
    users = "\n".join(_user(name, user, password(name)) for name, user in USERS.items())
    exports = "\n".join(
        (
            f'      {{ service: "$JS.API.{_FEED[0]}", response_type: stream, accounts: [FEED] }}',
            f'      {{ service: "$JS.API.{_FEED[1]}", accounts: [FEED] }}',
            f'      {{ service: "{_ACKS}", accounts: [FEED] }}',
        )
    )
    imports = "\n".join(
        (
            *(f'      {{ {_from(f"$JS.API.{call}")}, to: "{FEED_PREFIX}.{call}" }}' for call in _FEED),
            f"      {{ {_from(_ACKS)} }}",
        )
    )
    return _CONFIGURATION.format(
        users=users, exports=exports, imports=imports, analytics=ANALYTICS, password=password(ANALYTICS)
    )


_ACKS = f"$JS.ACK.{EVENTS}.{ANALYTICS}.>"


def _from(subject: str) -> str:
    return f'service: {{ account: AGENTCHAT, subject: "{subject}" }}'


def _user(name: str, user: User, password: str) -> str:
    publish = _list(("$JS.API.INFO", *user.publish))
    subscribe = _list((*user.subscribe, f"{inbox_prefix(name)}.>"))
    if user.but_not:
        publish = f"{{ allow: {publish}, deny: {_list(user.but_not)} }}"
    permissions = f"{{\n        publish: {publish}\n        subscribe: {subscribe} }}"
    return f'      {{ user: "{name}", password: {password}, permissions: {permissions} }}'


def _list(subjects: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"


_CONFIGURATION = """\
accounts {{
  AGENTCHAT {{
    jetstream: enabled
    users: [
{users}
    ]
    exports: [
{exports}
    ]
  }}
  # Who reads the feed reaches one consumer, and nothing else of the account above.
  FEED {{
    users: [ {{ user: "{analytics}", password: {password} }} ]
    imports: [
{imports}
    ]
  }}
}}
"""
