"""Define the setting that names the object store."""

from typing import Annotated

from agentchat.runtime.settings import Setting

FilesUrl = Annotated[str, Setting("AGENTCHAT_FILES_URL")]
"""`file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://account/container/prefix`.

The same for all processes. Credentials come from the store's own variables, such as AWS_ACCESS_KEY_ID.
"""
