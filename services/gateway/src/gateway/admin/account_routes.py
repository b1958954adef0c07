"""The addresses of accounts, their keys, plans, and the audit log."""

from administration import accounts, audit, keys, plans, usage
from administration.usage import MonthUsage
from administration.values import (
    Account,
    AccountChanges,
    AuditRow,
    Deletion,
    IssuedKey,
    Key,
    KeyChanges,
    NewAccount,
    NewKey,
    NewPlan,
    Plan,
    PlanChanges,
)
from gateway.admin.route import PAGING, Nothing, Route

_ACCOUNTS = (
    Route(
        method="POST",
        path="/accounts",
        summary="Make an account.",
        body=NewAccount,
        status=201,
        gives=Account,
        conflicts=True,
        answer=lambda admin, asked: accounts.create(admin, asked.body),
    ),
    Route(
        method="GET",
        path="/accounts",
        summary="List the accounts.",
        query=PAGING,
        gives=Account,
        paged=True,
        answer=lambda admin, asked: accounts.page(admin, **asked.paging),
    ),
    Route(
        method="GET",
        path="/accounts/{account_id}",
        summary="Get an account.",
        gives=Account,
        answer=lambda admin, asked: accounts.get(admin, asked.path["account_id"]),
    ),
    Route(
        method="PATCH",
        path="/accounts/{account_id}",
        summary="Rename an account, put it on another plan, disable or enable it.",
        body=AccountChanges,
        gives=Account,
        answer=lambda admin, asked: accounts.change(admin, asked.path["account_id"], asked.body),
    ),
    Route(
        method="DELETE",
        path="/accounts/{account_id}",
        summary="Delete an account; with force all that it has, its conversations too.",
        body=Nothing,
        optional=True,
        query=("force", "dry_run"),
        gives=Deletion,
        conflicts=True,
        answer=lambda admin, asked: accounts.delete(admin, asked.path["account_id"], **asked.flags),
    ),
    Route(
        method="GET",
        path="/accounts/{account_id}/usage",
        summary="What an account has spent in a month, by day, agent and model.",
        query=("month",),
        gives=MonthUsage,
        answer=lambda admin, asked: usage.of_month(admin, asked.path["account_id"], asked.query.get("month")),
    ),
)

_KEYS = (
    Route(
        method="POST",
        path="/accounts/{account_id}/keys",
        summary="Make an API key; it is shown this once.",
        body=NewKey,
        optional=True,
        status=201,
        gives=IssuedKey,
        answer=lambda admin, asked: keys.create(admin, asked.path["account_id"], asked.body),
    ),
    Route(
        method="GET",
        path="/accounts/{account_id}/keys",
        summary="List an account's keys, revoked ones too.",
        query=PAGING,
        gives=Key,
        paged=True,
        answer=lambda admin, asked: keys.page(admin, asked.path["account_id"], **asked.paging),
    ),
    Route(
        method="GET",
        path="/keys/{key_id}",
        summary="Get a key.",
        gives=Key,
        answer=lambda admin, asked: keys.get(admin, asked.path["key_id"]),
    ),
    Route(
        method="PATCH",
        path="/keys/{key_id}",
        summary="Rename a key, disable or enable it.",
        body=KeyChanges,
        gives=Key,
        conflicts=True,
        answer=lambda admin, asked: keys.change(admin, asked.path["key_id"], asked.body),
    ),
    Route(
        method="DELETE",
        path="/keys/{key_id}",
        summary="Revoke a key: it fails at the next request. It stays in the list.",
        body=Nothing,
        optional=True,
        query=("dry_run",),
        gives=Deletion,
        answer=lambda admin, asked: keys.revoke(admin, asked.path["key_id"], **asked.flags),
    ),
    Route(
        method="POST",
        path="/keys/{key_id}/rotate",
        summary="Replace a key under its id: the old one fails at the next request.",
        body=Nothing,
        optional=True,
        gives=IssuedKey,
        conflicts=True,
        answer=lambda admin, asked: keys.rotate(admin, asked.path["key_id"]),
    ),
)

_PLANS = (
    Route(
        method="POST",
        path="/plans",
        summary="Make a plan.",
        body=NewPlan,
        status=201,
        gives=Plan,
        conflicts=True,
        answer=lambda admin, asked: plans.create(admin, asked.body),
    ),
    Route(
        method="GET",
        path="/plans",
        summary="List the plans.",
        query=PAGING,
        gives=Plan,
        paged=True,
        answer=lambda admin, asked: plans.page(admin, **asked.paging),
    ),
    Route(
        method="GET",
        path="/plans/{name}",
        summary="Get a plan.",
        gives=Plan,
        answer=lambda admin, asked: plans.get(admin, asked.path["name"]),
    ),
    Route(
        method="PATCH",
        path="/plans/{name}",
        summary="Change a plan's numbers, from the next request on.",
        body=PlanChanges,
        gives=Plan,
        answer=lambda admin, asked: plans.change(admin, asked.path["name"], asked.body),
    ),
    Route(
        method="DELETE",
        path="/plans/{name}",
        summary="Delete a plan that no account is on.",
        body=Nothing,
        optional=True,
        query=("dry_run",),
        gives=Deletion,
        conflicts=True,
        answer=lambda admin, asked: plans.delete(admin, asked.path["name"], **asked.flags),
    ),
)

_AUDIT = (
    Route(
        method="GET",
        path="/audit",
        summary="List the changes, the newest first: who, what, before, after, when.",
        query=("kind", "subject", "actor", *PAGING),
        gives=AuditRow,
        paged=True,
        answer=lambda admin, asked: audit.page(
            admin, **asked.chosen("kind", "subject", "actor"), **asked.paging
        ),
    ),
)

ROUTES = (*_ACCOUNTS, *_KEYS, *_PLANS, *_AUDIT)
