"""Files of clients that we did not choose: useChat's client, AG-UI's, and LangChain."""

from pathlib import Path

import pytest

from tests import installed
from tests.system.calling import Caller
from tests.system.test_attachments import IMAGE_URL, PDF_URL, SEES_BOTH

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_HERE = Path(__file__).parent
_FILES = {"IMAGE": IMAGE_URL, "PDF": PDF_URL}


@pytest.mark.parametrize("version", ["ai", "ai-7"])
async def test_use_chat_sends_files_and_goes_on(caller: Caller, version: str) -> None:
    folder = await installed.node_packages(_HERE / "ai_sdk_clients")
    told = await installed.run_json(folder, "node", "files.mjs", version, **caller.environ, **_FILES)
    assert (told["error"], told["turns"]) == (None, 4)
    assert SEES_BOTH in told["text"]


@pytest.mark.parametrize("version", ["@ag-ui/client", "ag-ui-before"])
async def test_ag_ui_sends_files_and_goes_on(caller: Caller, version: str) -> None:
    folder = await installed.node_packages(_HERE / "ag_ui_clients")
    told = await installed.run_json(folder, "node", "files.mjs", version, **caller.environ, **_FILES)
    assert told["turns"] == 4
    assert SEES_BOTH in told["text"]


async def test_langchain_sends_files(caller: Caller) -> None:
    python = await installed.python_packages("langchain", "langchain_openai", "langchain-openai==1.7.4")
    told = await installed.run_json(
        _HERE / "openai_clients",
        *(python, "files_langchain.py"),
        OPENAI_BASE_URL=f"{caller.base_url}/openai/v1",
        OPENAI_API_KEY=caller.headers["X-Api-Key"],
        AGENT=caller.agent_id,
        **_FILES,
    )
    assert all(SEES_BOTH in text for text in told.values())
    assert set(told) == {"completions", "responses"}
