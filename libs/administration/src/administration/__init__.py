"""What an administrator may do, once, behind both doors: `/admin/v1` on the gateway and `agentchat admin`."""
