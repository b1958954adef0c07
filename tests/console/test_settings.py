"""What keeps a console from starting."""

import base64

import pytest

from console.settings import ConsoleSettings
from runtime.settings import SettingsError, load

pytestmark = pytest.mark.requirement("SETTINGS", "CONSOLE-CLOSED")

_GOOD = {
    "AGENTCHAT_DATABASE_URL": "postgresql://x",
    "AGENTCHAT_NATS_URL": "nats://x",
    "AGENTCHAT_SECRET_KEY": base64.b64encode(bytes(32)).decode(),
}

_SIGN_IN = {"AGENTCHAT_ADMIN_TOKEN": "t" * 16}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"AGENTCHAT_SECRET_KEY": ""}, "AGENTCHAT_SECRET_KEY is not set"),
        ({"AGENTCHAT_SECRET_KEY": "short"}, "AGENTCHAT_SECRET_KEY"),
        ({"AGENTCHAT_HOST": "0.0.0.0"}, "AGENTCHAT_ADMIN_TOKEN is not set, so the console is open"),
        ({"AGENTCHAT_ADMIN_TOKEN": "t" * 16}, "AGENTCHAT_CONSOLE_URL is not set"),
        ({"AGENTCHAT_ADMIN_TOKEN": "short"}, "AGENTCHAT_ADMIN_TOKEN"),
        ({"AGENTCHAT_CONSOLE_URL": "https://c.example"}, "AGENTCHAT_ADMIN_TOKEN is not"),
        ({**_SIGN_IN, "AGENTCHAT_CONSOLE_URL": "http://c.example"}, "must be https"),
        ({**_SIGN_IN, "AGENTCHAT_CONSOLE_URL": "https://c.example/x"}, "must be https"),
        ({**_SIGN_IN, "AGENTCHAT_CONSOLE_HOURS": "0"}, "AGENTCHAT_CONSOLE_HOURS"),
        ({"AGENTCHAT_CONSOLE_SERVICES": "gateway-1"}, "must be name=http"),
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


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_without_a_token_it_listens_on_loopback(host: str) -> None:
    load(ConsoleSettings, _GOOD | {"AGENTCHAT_HOST": host}).check()
