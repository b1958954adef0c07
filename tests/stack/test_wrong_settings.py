"""A wrong setting ends each service at its start with one line that names it, and without its value."""

import base64
import importlib

import pytest

_SETTINGS = {
    "AGENTCHAT_DATABASE_URL": "postgresql://127.0.0.1:1/none",
    "AGENTCHAT_NATS_URL": "nats://127.0.0.1:1",
    "AGENTCHAT_REDIS_URL": "redis://127.0.0.1:1/0",
    "AGENTCHAT_SECRET_KEY": base64.b64encode(b"k" * 32).decode(),
    "AGENTCHAT_FILES_URL": "s3://bucket",
    "AGENTCHAT_ADMIN_TOKEN": "a-token-of-an-administrator",
    "AGENTCHAT_CONSOLE_PORT": "0",
    "AGENTCHAT_HEALTH_PORT": "0",
    "AGENTCHAT_MCP_PORT": "0",
    "AGENTCHAT_MODEL_PORT": "0",
}


@pytest.mark.parametrize(
    ("service", "name", "value"),
    [
        ("gateway", "AGENTCHAT_DATABASE_URL", ""),
        ("gateway", "AGENTCHAT_NATS_URL", ""),
        ("gateway", "AGENTCHAT_REDIS_URL", ""),
        ("gateway", "AGENTCHAT_STREAM_FORM", "3"),
        ("gateway", "AGENTCHAT_PORT", "99999"),
        ("gateway", "AGENTCHAT_LOG_LEVEL", "loud"),
        ("gateway", "AGENTCHAT_TRUSTED_PROXIES", "10.0.0.1,proxy"),
        ("gateway", "AGENTCHAT_ADMIN_TOKEN", "canary"),
        ("gateway", "AGENTCHAT_FILES_URL", ""),
        ("gateway", "AGENTCHAT_FILES_URL", "memory:///"),
        ("gateway", "AGENTCHAT_SECRET_KEY", ""),
        ("gateway", "AGENTCHAT_SECRET_KEY", "canary"),
        ("orchestrator", "AGENTCHAT_NATS_URL", ""),
        ("orchestrator", "AGENTCHAT_RUN_SLOTS", "many"),
        ("orchestrator", "AGENTCHAT_FILES_URL", "memory:///"),
        ("orchestrator", "AGENTCHAT_SECRET_KEY", "canary"),
        ("tool_runner", "AGENTCHAT_NATS_URL", ""),
        ("tool_runner", "AGENTCHAT_SECRET_KEY", "canary"),
        ("tool_runner", "AGENTCHAT_FILES_URL", "memory:///"),
        ("tool_runner", "AGENTCHAT_MCP_ALLOW", "localhost"),
        ("tool_runner", "AGENTCHAT_TOOL_SLOTS", "0"),
        ("projector", "AGENTCHAT_DATABASE_URL", ""),
        ("projector", "AGENTCHAT_FILES_URL", "memory:///"),
        ("console", "AGENTCHAT_CONSOLE_PORT", "70000"),
        ("mcp_demo", "AGENTCHAT_MCP_PORT", "eighty"),
        ("mcp_demo", "AGENTCHAT_MCP_HOSTS", "tools.example,http://tools.example/api"),
        ("model_demo", "AGENTCHAT_MODEL_PORT", ""),
        ("model_demo", "AGENTCHAT_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], service: str, name: str, value: str
) -> None:
    for variable, usual in (_SETTINGS | {name: value}).items():
        monkeypatch.setenv(variable, value if variable == name else usual)
    monkeypatch.setattr("sys.argv", [service])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"agentchat.{service}.__main__").main()
    assert ended.value.code == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert name in err
    assert "canary" not in err
