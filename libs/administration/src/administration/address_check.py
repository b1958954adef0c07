"""Whether the addresses of an agent may be called: judged when saved, as they will be at each call."""

from administration.admin import Admin
from contracts.admin_errors import Invalid
from net_guard import AddressRefused, Guard
from net_guard.addresses import judge_url


async def check_callable(guard: Guard, url: str, field: str, setting: str) -> None:
    """Judge an address as a call now would. `setting` lets others through. Raises Invalid."""
    try:
        await judge_url(guard, url)
    except AddressRefused as error:
        raise Invalid(field, f"may not be called: {error}; {setting} lists addresses of your own") from None
    except ValueError:
        return  # not well-formed: the configuration's own check says how


async def check_tool_url(admin: Admin, url: str, field: str = "url") -> None:
    """Judge the address of a tool server. Raises Invalid."""
    await check_callable(admin.tool_hosts, url, field, "AGENTCHAT_MCP_ALLOW")
