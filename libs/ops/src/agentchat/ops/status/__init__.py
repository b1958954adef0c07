"""`agentchat status`: processes and their health, figures of the work, problems in the logs."""
