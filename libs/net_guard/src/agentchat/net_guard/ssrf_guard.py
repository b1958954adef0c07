"""Check the URLs and addresses that customers configure, against SSRF.

See docs/change/rules.md 8 and OWASP API7:2023. Names are resolved here and the connection goes to a permitted
address, so a name that resolves to another address a moment later (DNS rebinding) gains nothing.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Iterable
from urllib.parse import urlsplit

from agentchat.runtime.fair_slots import FairSlots
from agentchat.runtime.settings import SettingsError

Resolve = Callable[[str, int, str], Awaitable[list[str]]]
"""Resolve host and port, for an account, to addresses as text. Raises OSError if there are none."""

_HTTPS_PORT = 443
HTTPS_PORTS = (_HTTPS_PORT,)
"""The ports that https may use unless a guard is built with others."""
_NO_FAULT_OF_THE_NAME = (socket.EAI_AGAIN, socket.EAI_SYSTEM, socket.EAI_MEMORY)
_IPv4 = ipaddress.IPv4Address
_IPv6 = ipaddress.IPv6Address

_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # IETF protocol assignments; a cloud serves metadata on 192.0.0.192
            "192.88.99.0/24",  # 6to4 relays, deprecated
            "168.63.129.16/32",  # a cloud's host agent, on an address that looks public
            "2001::/23",  # IETF protocol assignments, Teredo among them
            "3fff::/20",  # documentation
        ),
    )
)
_NOT_OF_THE_INTERNET = (".localhost", ".local", ".internal", ".home.arpa")  # RFC 6761, 6762, 8375; ICANN 2024
_ENDS_IN_A_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\Z")  # WHATWG URL: an address, or no host
_AUTHORITY = re.compile(
    r"(?:(?P<name>[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?)|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?",
    re.IGNORECASE,
)
_IN_NAMES = ("L", "M", "N")  # Unicode's categories: letters, marks, numbers
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):  # noqa: N818 - an outcome
    """The address is refused.

    The text is shown to clients, so it never says what a name resolves to.
    """


class Unresolved(Exception):  # noqa: N818 - an outcome
    """The name has no address."""


class NotLookedUp(Unresolved):
    """The name could not be looked up now (no turn, no answer, no resolver).

    It may still exist.
    """


class Guard:
    """Check URLs and addresses.

    `allow` lists host:port pairs that pass unchecked; port `*` means any port. Every other URL must be https
    at one of `ports` and lead to public addresses. Raises ValueError for an entry that is not host:port.
    """

    def __init__(
        self, allow: Iterable[str], resolve: Resolve | None = None, ports: Collection[int] = HTTPS_PORTS
    ) -> None:
        self._allow = frozenset(map(_parse_host_and_port, allow))
        self._resolve = resolve or Resolver()
        self._ports = frozenset(ports)

    def check(self, scheme: str, host: str, port: int | None, userinfo: bool = False) -> None:
        """Check a URL by the parts that the HTTP client parsed; a host may be an address.

        Raises:
            AddressRefused
        """
        if scheme not in ("http", "https") or not host:
            raise AddressRefused("neither http nor https")
        if userinfo:
            raise AddressRefused("credentials in the address")
        number = port or (_HTTPS_PORT if scheme == "https" else 80)
        if self._is_allowed(host, number):
            return
        if scheme != "https":
            raise AddressRefused("not https")
        if number not in self._ports:
            raise AddressRefused(f"port {number}")
        if _is_literal(host):
            if not is_public(host):
                raise AddressRefused(f"{host} is not a public address")
        elif _ENDS_IN_A_NUMBER.search(host.rstrip(".")):
            raise AddressRefused(f"{host} is no address")

    def check_url(self, url: str) -> None:
        """Check a URL without asking a name server.

        The host must be written plainly, because a browser decodes and maps characters that we would not.

        Raises:
            AddressRefused, ValueError
        """
        parts = urlsplit(url)
        if parts.username is None and not _is_plain(url, parts.netloc):
            raise AddressRefused("its host is not written plainly")
        host = (parts.hostname or "").rstrip(".")
        self.check(parts.scheme, host, parts.port, userinfo=parts.username is not None)
        if self._is_allowed(host, parts.port or (_HTTPS_PORT if parts.scheme == "https" else 80)):
            return
        if not _is_literal(host) and ("." not in host or host.endswith(_NOT_OF_THE_INTERNET)):
            raise AddressRefused(f"{host} is not a name of the Internet")

    async def resolve(self, host: str, port: int, account_id: str) -> list[str]:
        """Return the addresses to connect to, all of them permitted.

        Raises:
            AddressRefused, Unresolved, NotLookedUp
        """
        try:
            found = await self._resolve(host, port, account_id)
        except (OSError, UnicodeError) as error:
            is_ours = isinstance(error, socket.gaierror) and error.errno in _NO_FAULT_OF_THE_NAME
            raise (NotLookedUp if is_ours else Unresolved)(str(error)) from error
        if not found:
            raise Unresolved("no address")
        if not self._is_allowed(host, port):
            for address in found:
                if not is_public(address):
                    raise AddressRefused(f"{host} is at an address that is not public")
        return found

    def _is_allowed(self, host: str, port: int) -> bool:
        name = host.lower()
        return (name, port) in self._allow or (name, None) in self._allow


def is_public(address: str) -> bool:
    """Return True if `address`, or the IPv4 address embedded in it, is on the public Internet."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if any(parsed in network for network in _NEVER if network.version == parsed.version):
        return False
    if isinstance(parsed, _IPv4):
        return parsed.is_global and not parsed.is_multicast
    embedded = _find_embedded_ipv4(parsed)
    if embedded is not None:
        return is_public(str(embedded))
    return parsed in _GLOBAL_UNICAST and parsed.is_global and parsed.scope_id is None


def _find_embedded_ipv4(address: _IPv6) -> _IPv4 | None:
    """Return the IPv4 address that an IPv4-mapped, 6to4 or NAT64 address leads to."""
    if address in _NAT64:
        return _IPv4(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_plain(url: str, authority: str) -> bool:
    """Return True if the host is an address or only letters, digits, hyphens, underscores.

    Such a host contains nothing that browsers (WHATWG URL) decode, map or remove.
    """
    found = _AUTHORITY.fullmatch(authority)
    if found is None or any(each <= " " or each == "\x7f" for each in url):
        return False
    return all(map(_is_own_form, (found["name"] or "").lower().split(".")))


def _is_own_form(label: str) -> bool:
    """Return True unless an `xn--` label encodes characters that browsers map to others."""
    if not label.startswith("xn--"):
        return True
    try:
        meant = label[4:].encode().decode("punycode")
    except UnicodeError:
        return False
    in_names = all(unicodedata.category(each)[0] in _IN_NAMES or each == "-" for each in meant)
    return in_names and not meant.isascii() and unicodedata.normalize("NFKC", meant).lower() == meant


def _is_literal(host: str) -> bool:
    """Return True if `host` is an address in any form resolvers take.

    127.1, 0x7f000001, 2130706433, ::1.
    """
    if ":" in host:
        return True
    with contextlib.suppress(OSError):
        socket.inet_aton(host)
        return True
    return False


def _parse_host_and_port(entry: str) -> tuple[str, int | None]:
    host, separator, port = entry.rpartition(":")
    if separator and host and port == "*":
        return host.strip("[]").lower(), None
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"not host:port: {entry}")
    return host.strip("[]").lower(), int(port)


class Resolver:
    """The system's resolver, in threads of its own.

    So a slow name server delays only one account. The threads are daemons, because a thread that waits for a
    name server cannot be stopped.
    """

    def __init__(self, threads: int = 16) -> None:
        self._turns = FairSlots(threads)

    async def __call__(self, host: str, port: int, account_id: str) -> list[str]:
        """Resolve `host` in a thread, when it is the account's turn. Raises OSError, UnicodeError."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[str]] = loop.create_future()
        await self._turns.take(account_id)

        def settle(found: list[str] | None, error: Exception | None) -> None:
            self._turns.release(account_id)
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(found or [])

        def look_up() -> None:
            found, failure = None, None
            try:
                entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
            except (OSError, UnicodeError) as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
                loop.call_soon_threadsafe(settle, found, failure)

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        return await done


def build_guard(allow: Iterable[str], variable: str, ports: Collection[int] = HTTPS_PORTS) -> Guard:
    """Build the guard from the value of an environment variable, which is named in errors.

    Raises:
        SettingsError
    """
    try:
        return Guard(allow, ports=ports)
    except ValueError as error:
        raise SettingsError(f"{variable} cannot be used: {error}") from None
