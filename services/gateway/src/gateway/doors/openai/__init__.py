"""/openai/v1: agents as models of OpenAI's Chat Completions API, for any client that speaks it.

`who` has the headers, `body` and `reading` a request, `answers` and `refusals` what is said, `wire` in which
words. Where it departs from OpenAI: docs/openai.md; why: docs/decisions/0035.
"""

from gateway.doors.openai import description
from gateway.doors.openai.models import get_model, list_models
from gateway.doors.openai.reading import read
from gateway.doors.openai.refusals import words
from gateway.doors.openai.who import again, who
from gateway.doors.port import Door, Entrance, Page, Wording

DOOR = Door(name="openai", read=read)
ENTRANCE = Entrance(
    path="/openai/v1/chat/completions",
    who=who,
    door=lambda _parts, _exchange: DOOR,
    describe=description.complete,
    again=again,
)
PAGES = (
    Page(path="/openai/v1/models", answer=list_models, describe=description.list_models),
    Page(path="/openai/v1/models/{model}", answer=get_model, describe=description.get_model),
)
WORDING = Wording(prefix="/openai/", words=words)
