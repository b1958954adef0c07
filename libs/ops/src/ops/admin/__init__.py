"""`agentchat admin`: the routes of `administration.routes` as commands; a few work on the database itself."""
