"""Serve HTTP: chats in several protocols, conversations, approvals, webhooks, administration.

A request passes `http` and `access`; its protocol (`protocols`) starts a run and follows it (`runs`).
`routes` lists the handlers, `app` builds the application, `service` runs the process.
"""
