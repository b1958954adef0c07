"""Serve a shop's page, and pass requests on with the key and the customer: python backend.py [PORT]"""

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import uvicorn
from litestar import Litestar, MediaType, Request, delete, get, route
from litestar.response import Stream

AGENT = {"X-Agent-Id": os.environ["AGENT_ID"], "X-Stream-Form": "full", "Content-Type": "application/json"}
KEY = {"X-Api-Key": os.environ["API_KEY"]}
SERVICE = httpx.AsyncClient(base_url=os.environ["BASE_URL"] + "/v1", headers=KEY, timeout=600)


@get("/", media_type=MediaType.HTML)
async def show_page() -> str:
    return Path(__file__).with_name("page.html").read_text()


@route("/v1/{path:path}", http_method=["GET", "POST"])
async def pass_on(request: Request[Any, Any, Any], path: str) -> Stream:
    headers = AGENT | {"X-User-Id": request.cookies["customer"]}  # in your shop: of the session
    url = httpx.URL(path, query=request.url.query.encode())
    sent = SERVICE.build_request(request.method, url, headers=headers, content=await request.body())
    answer = await SERVICE.send(sent, stream=True)
    media_type = answer.headers["content-type"]
    return Stream(answer.aiter_bytes(), status_code=answer.status_code, media_type=media_type)


@delete("/customer", status_code=202)
async def delete_customer(request: Request[Any, Any, Any]) -> None:
    (await SERVICE.delete("/users/" + quote(request.cookies["customer"], safe=""))).raise_for_status()


uvicorn.run(Litestar([show_page, pass_on, delete_customer]), port=int(sys.argv[1]) if sys.argv[1:] else 8090)
