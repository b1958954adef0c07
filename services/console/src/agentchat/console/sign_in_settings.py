"""Define how people sign in: at an OpenID Connect provider, with a token, or not at all."""

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from agentchat.console.shared.console_roles import Role
from agentchat.knowledge.settings import EmbedderSettings
from agentchat.runtime.client_address import parse_networks
from agentchat.runtime.settings import Setting, SettingsError

AdminToken = Annotated[str, msgspec.Meta(min_length=16)]
Hours = Annotated[float, msgspec.Meta(gt=0, le=720)]
Minutes = Annotated[float, msgspec.Meta(gt=0, le=60)]

_PREFIX = "AGENTCHAT_CONSOLE_OIDC_"
_ISSUER = f"{_PREFIX}ISSUER"


class SignInSettings(EmbedderSettings, frozen=True, kw_only=True):
    """The settings for signing in. A session lasts `session_hours`.

    `console_url` is the address in the browser; it must be https unless the browser is on this machine.
    Failed sign-ins are counted by the client address that `trusted_proxies` tell in X-Forwarded-For.

    With `oidc_issuer`, people sign in at that provider with `oidc_scopes`. `oidc_role_claim` of the ID token
    is a value or a list of values; `oidc_roles` maps values to roles, each as `value=role`. The claim is read
    again every `oidc_role_minutes`. Without `oidc_issuer`, people sign in with a name and `admin_token`. With
    neither, nobody signs in, and the console may only listen on a loopback address.
    """

    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    admin_token: Annotated[AdminToken | None, Setting("AGENTCHAT_ADMIN_TOKEN", secret=True)] = None
    console_url: Annotated[str | None, Setting("AGENTCHAT_CONSOLE_URL")] = None
    trusted_proxies: Annotated[tuple[str, ...], Setting("AGENTCHAT_TRUSTED_PROXIES")] = ()
    session_hours: Annotated[Hours, Setting("AGENTCHAT_CONSOLE_HOURS")] = 8.0
    oidc_issuer: Annotated[str | None, Setting(_ISSUER)] = None
    oidc_client_id: Annotated[str | None, Setting(f"{_PREFIX}CLIENT_ID")] = None
    oidc_client_secret: Annotated[str | None, Setting(f"{_PREFIX}CLIENT_SECRET", secret=True)] = None
    oidc_role_claim: Annotated[str, Setting(f"{_PREFIX}ROLE_CLAIM")] = "groups"
    oidc_roles: Annotated[tuple[str, ...], Setting(f"{_PREFIX}ROLES")] = ()
    oidc_role_minutes: Annotated[Minutes, Setting(f"{_PREFIX}ROLE_MINUTES")] = 5.0
    oidc_scopes: Annotated[tuple[str, ...], Setting(f"{_PREFIX}SCOPES")] = ("openid", "profile", "email")

    def check_sign_in(self) -> None:
        """Check what the types cannot express. Raises SettingsError."""
        self._check_provider()
        parse_networks(self.trusted_proxies)
        if self.get_credentials() is not None:
            _check_url(self.console_url)
            return
        if not is_loopback(self.host):
            raise SettingsError(
                f"AGENTCHAT_HOST {self.host!r} must be a loopback address, since anyone who reaches the "
                f"console could use it: set AGENTCHAT_ADMIN_TOKEN or {_ISSUER} to require a sign-in"
            )
        if self.console_url is not None:
            raise SettingsError(
                f"AGENTCHAT_CONSOLE_URL is set, but neither AGENTCHAT_ADMIN_TOKEN nor {_ISSUER} is"
            )

    def get_credentials(self) -> str | None:
        """Return what sign-ins depend on, or None if nobody signs in.

        A change of it ends all sessions.
        """
        if self.oidc_issuer is None:
            return self.admin_token
        names = ("oidc_issuer", "oidc_client_id", "oidc_client_secret", "oidc_role_claim", "oidc_roles")
        return msgspec.json.encode([getattr(self, name) for name in (*names, "oidc_role_minutes")]).decode()

    def map_roles(self) -> dict[str, Role]:
        """Return the roles by value of the claim. Raises SettingsError."""
        roles = {}
        for each in self.oidc_roles:
            value, equals, word = each.rpartition("=")
            if not equals or not value or word.upper() not in Role.__members__:
                words = ", ".join(role.word for role in Role)
                raise SettingsError(
                    f"{_PREFIX}ROLES {each!r}: must be value=role, with one of the roles {words}"
                )
            roles[value.strip()] = Role[word.upper()]
        return roles

    def _check_provider(self) -> None:
        needed = {
            "CLIENT_ID": self.oidc_client_id,
            "CLIENT_SECRET": self.oidc_client_secret,
            "ROLES": self.oidc_roles,
        }
        for name, value in needed.items():
            if self.oidc_issuer is None and value:
                raise SettingsError(f"{_PREFIX}{name} is set, but {_ISSUER} is not")
            if self.oidc_issuer is not None and not value:
                raise SettingsError(f"{_PREFIX}{name} is not set, but {_ISSUER} requires it")
        if self.oidc_issuer is not None and not is_safe(self.oidc_issuer):
            raise SettingsError(
                f"{_ISSUER} {self.oidc_issuer!r} must be https://host/path, or http:// of a loopback address"
            )
        if "openid" not in self.oidc_scopes:
            raise SettingsError(
                f"{_PREFIX}SCOPES must include openid: without it the provider sends no ID token"
            )
        self.map_roles()


def _check_url(url: str | None) -> None:
    if url is None:
        raise SettingsError(
            f"AGENTCHAT_CONSOLE_URL is not set, but AGENTCHAT_ADMIN_TOKEN and {_ISSUER} require it"
        )
    if not is_safe(url) or urlsplit(url).path not in ("", "/"):
        raise SettingsError(
            f"AGENTCHAT_CONSOLE_URL {url!r} must be https://host, or http:// of a loopback address"
        )


def is_safe(url: str) -> bool:
    """Return True if a URL is https, or http to a loopback address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    is_private = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    return is_private and bool(host) and not parts.query and not parts.fragment and parts.username is None


def is_loopback(host: str) -> bool:
    """Return True if `host` is a loopback address or "localhost"."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
