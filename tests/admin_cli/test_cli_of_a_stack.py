"""The commands with a stack that runs here."""

from agentchat.client import AgentChat
from tests.admin_cli.conftest import SECRET_KEY, Cli
from tests.harness import RunningStack


def test_a_running_stack_is_found_checked_counted_and_cleared(stack: RunningStack) -> None:
    found = stack.environment
    cli = Cli({"AGENTCHAT_RUN_DIR": str(stack.folder.path)})
    elsewhere = cli("accounts", "list", AGENTCHAT_DATABASE_URL="postgresql://nobody@127.0.0.1:9/x")
    assert elsewhere.code == 2
    assert "is not the running stack's" in elsewhere.err
    with AgentChat(found.load_api_key, base_url=found.base_url, agent_id=found.load_agent_id) as client:
        conversation = client.chat("Hello").conversation_id
        checked = cli.json("agents", "check", found.agent_id)
        assert checked["ok"] is True
        assert checked["provider"]["ok"] is True
        assert [server["ok"] for server in checked["servers"]] == [True]
        account = cli.json("agents", "show", found.load_agent_id)["account_id"]
        assert cli.json("usage", "--account", account)["account_id"] == account
        assert account in cli("usage").out
        assert cli.json("DELETE", f"/conversations/{conversation}", "dry_run=true")["dry_run"] is True
        assert cli("DELETE", f"/conversations/{conversation}").code == 0
        assert conversation not in [each.conversation_id for each in client.conversations()]
    assert SECRET_KEY not in cli.printed
