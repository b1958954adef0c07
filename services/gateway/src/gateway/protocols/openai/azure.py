"""Azure's addresses of OpenAI's API, each with the one of ours that answers it.

`AzureOpenAI(azure_endpoint=…)` calls `/openai/deployments/{deployment}/chat/completions`, and `/openai/…` for
all else. A deployment is an agent. `?api-version=` is passed over.
"""

import re

_OWN = "/openai/v1/"
_ELSEWHERE = re.compile(r"/openai/(models|responses|chat)(/.*)?")
_DEPLOYED = re.compile(r"/openai/deployments/([^/]+)/chat/completions")


def canonical(path: str) -> str:
    """The path at which we have what Azure has at `path`; any other path as it is."""
    if _DEPLOYED.fullmatch(path):
        return f"{_OWN}chat/completions"
    if _ELSEWHERE.fullmatch(path):
        return _OWN + path.removeprefix("/openai/")
    return path


def deployment_of(path: str) -> str | None:
    """The deployment that the path names: it counts, whatever `model` the body has."""
    found = _DEPLOYED.fullmatch(path)
    return found and found[1]
