"""LangChain's images and files against our API, in an environment of its own."""

import json
import os
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

pdf = {
    "type": "file",
    "base64": os.environ["PDF"].partition(",")[2],
    "mime_type": "application/pdf",
    "filename": "a.pdf",
}
content: list[Any] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": os.environ["IMAGE"]}},
    pdf,
]
told = {}
for name, options in {"completions": {}, "responses": {"use_responses_api": True}}.items():
    model: Any = ChatOpenAI(model=os.environ["AGENT"], **options)
    told[name] = model.invoke([HumanMessage(content)]).text
print(json.dumps(told))
