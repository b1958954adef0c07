"""The HTTP service: chats in several protocols, conversations, approvals, webhooks, administration.

A request passes `http` and `access`; its protocol (`protocols`) starts a run (`chat`), followed in `runs`.
`routes` lists the handlers, `app` makes the application of them, `service` the process.
"""
