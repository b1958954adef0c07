"""LangChain against our API: what it makes of a stream, a document and an error.

It runs in an environment of its own.
"""

import json
import os

import openai
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Where(BaseModel):
    """What a structured reply is to be."""

    answer: str
    is_late: bool


model = ChatOpenAI(
    model=os.environ["AGENT"],
    include_response_headers=True,
    default_headers={"X-Conversation-Id": "langchain"},
)
question = HumanMessage(os.environ["QUESTION"])
chunks = list(model.stream([question]))
text = "".join(str(chunk.content) for chunk in chunks)
reply = model.invoke([question, AIMessage(text), HumanMessage("Thanks!")])
where = model.with_structured_output(Where).invoke([question])
thinking = ChatOpenAI(
    model=os.environ["THINKING_AGENT"],
    api_key=os.environ["THINKING_KEY"],
    use_responses_api=True,
    output_version="responses/v1",
).invoke("Hello")
refused = None
try:
    model.bind(n=2).invoke([question])
except openai.BadRequestError as error:
    refused = {"status": error.status_code, "param": error.param, "type": error.type}
print(
    json.dumps(
        {
            "models": [each.id for each in openai.OpenAI().models.list()],
            "text": text,
            "finish": next(
                meta["finish_reason"]
                for chunk in chunks
                if "finish_reason" in (meta := chunk.response_metadata)
            ),
            "calls": sum(len(chunk.tool_calls) for chunk in chunks),
            "conversation": reply.response_metadata["headers"]["x-conversation-id"],
            "reply": reply.content,
            "refused": refused,
            "thought": [
                part["summary"][0]["text"] for part in thinking.content if part["type"] == "reasoning"
            ],
            "structured": where.answer,
        }
    )
)
