"""What keeps a console from starting."""

import base64

import pytest

from agentchat.console.settings import ConsoleSettings
from agentchat.console.shared.console_roles import Role
from agentchat.runtime.settings import SettingsError, load

_GOOD = {
    "AGENTCHAT_DATABASE_URL": "postgresql://x",
    "AGENTCHAT_NATS_URL": "nats://x",
    "AGENTCHAT_SECRET_KEY": base64.b64encode(bytes(32)).decode(),
}


def _build_provider(**changed: str) -> dict[str, str]:
    """Settings of a provider, and what is changed of them."""
    good = {"ISSUER": "https://login.example/realm", "CLIENT_ID": "console", "CLIENT_SECRET": "s"}
    good |= {"ROLES": "staff=viewer, cn=admins=owner"} | changed
    named = {f"AGENTCHAT_CONSOLE_OIDC_{name}": value for name, value in good.items()}
    return named | {"AGENTCHAT_CONSOLE_URL": "https://c.example"}


_SIGN_IN = {"AGENTCHAT_ADMIN_TOKEN": "t" * 16}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"AGENTCHAT_SECRET_KEY": ""}, "AGENTCHAT_SECRET_KEY is not set"),
        ({"AGENTCHAT_SECRET_KEY": "short"}, "AGENTCHAT_SECRET_KEY"),
        ({"AGENTCHAT_HOST": "0.0.0.0"}, "must be a loopback address"),
        ({"AGENTCHAT_ADMIN_TOKEN": "t" * 16}, "AGENTCHAT_CONSOLE_URL is not set"),
        ({"AGENTCHAT_ADMIN_TOKEN": "short"}, "AGENTCHAT_ADMIN_TOKEN"),
        ({"AGENTCHAT_CONSOLE_URL": "https://c.example"}, "neither AGENTCHAT_ADMIN_TOKEN nor"),
        ({**_SIGN_IN, "AGENTCHAT_CONSOLE_URL": "http://c.example"}, "must be https"),
        ({**_SIGN_IN, "AGENTCHAT_CONSOLE_URL": "https://c.example/x"}, "must be https"),
        ({**_SIGN_IN, "AGENTCHAT_CONSOLE_HOURS": "0"}, "AGENTCHAT_CONSOLE_HOURS"),
        (_build_provider(ISSUER="http://login.example"), "OIDC_ISSUER 'http://login.example' must be https"),
        (_build_provider(ISSUER="https://login.example/?a=b"), "OIDC_ISSUER"),
        (
            _build_provider(CLIENT_ID=""),
            "OIDC_CLIENT_ID is not set, but AGENTCHAT_CONSOLE_OIDC_ISSUER requires it",
        ),
        (_build_provider(CLIENT_SECRET=""), "OIDC_CLIENT_SECRET is not set"),
        (_build_provider(ROLES=""), "OIDC_ROLES is not set"),
        (_build_provider(ROLES="staff"), "OIDC_ROLES 'staff': must be value=role"),
        (_build_provider(ROLES="staff=king"), "with one of the roles viewer, approver, operator, owner"),
        (_build_provider(SCOPES="profile"), "OIDC_SCOPES must include openid"),
        (_build_provider(ISSUER=""), "OIDC_CLIENT_ID is set, but AGENTCHAT_CONSOLE_OIDC_ISSUER is not"),
        (_build_provider() | {"AGENTCHAT_CONSOLE_URL": ""}, "AGENTCHAT_CONSOLE_URL is not set"),
        ({"AGENTCHAT_CONSOLE_SERVICES": "gateway-1"}, "must be name=http"),
        (
            {"AGENTCHAT_PROMETHEUS_URL": "prometheus:9090"},
            "AGENTCHAT_PROMETHEUS_URL 'prometheus:9090': must be",
        ),
        ({"AGENTCHAT_MODEL_ALLOW": "a b"}, "AGENTCHAT_MODEL_ALLOW"),
    ],
)
def test_a_wrong_setting_is_named(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        load(ConsoleSettings, _GOOD | changed).check()


@pytest.mark.parametrize("url", ["https://c.example", "https://c.example:8443/", "http://127.0.0.1:8085"])
def test_with_a_token_it_listens_anywhere(url: str) -> None:
    own = {**_SIGN_IN, "AGENTCHAT_CONSOLE_URL": url, "AGENTCHAT_HOST": "0.0.0.0"}
    load(ConsoleSettings, _GOOD | own).check()


def test_with_a_provider_it_listens_anywhere_and_values_have_roles() -> None:
    settings = load(ConsoleSettings, _GOOD | _build_provider() | {"AGENTCHAT_HOST": "0.0.0.0"})
    settings.check()
    assert settings.map_roles() == {"staff": Role.VIEWER, "cn=admins": Role.OWNER}
    other = load(ConsoleSettings, _GOOD | _build_provider(ROLES="staff=owner"))
    assert settings.get_credentials() != other.get_credentials(), "other roles end all sessions"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_without_a_token_it_listens_on_loopback(host: str) -> None:
    load(ConsoleSettings, _GOOD | {"AGENTCHAT_HOST": host}).check()
