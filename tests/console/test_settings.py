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


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"AGENTCHAT_SECRET_KEY": ""}, "AGENTCHAT_SECRET_KEY is not set"),
        ({"AGENTCHAT_SECRET_KEY": "short"}, "AGENTCHAT_SECRET_KEY"),
        ({"AGENTCHAT_HOST": "0.0.0.0"}, "AGENTCHAT_HOST '0.0.0.0' cannot be used"),
        ({"AGENTCHAT_CONSOLE_SERVICES": "gateway-1"}, "must be name=http"),
        ({"AGENTCHAT_MODEL_ALLOW": "a b"}, "AGENTCHAT_MODEL_ALLOW"),
    ],
)
def test_a_wrong_setting_is_named(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        load(ConsoleSettings, _GOOD | changed).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_it_listens_on_loopback(host: str) -> None:
    load(ConsoleSettings, _GOOD | {"AGENTCHAT_HOST": host}).check()
