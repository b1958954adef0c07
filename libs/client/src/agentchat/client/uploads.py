"""Store files for messages: `files` of both clients."""

from agentchat.client.api_calls import ApiCall, quote_segment
from agentchat.client.blocking import run
from agentchat.client.call_sender import CallSender
from agentchat.client.models import File


class AsyncFiles:
    """The account's files, or those of the client's user."""

    def __init__(self, sender: CallSender) -> None:
        self._sender = sender

    async def upload(self, name: str, content: bytes) -> File:
        """Store a file of at most 32 MiB, which `attachments` of messages may then have.

        Raises InvalidRequest for a type that is not accepted, StorageFull.
        """
        call = ApiCall(method="POST", path="/v1/files", file=(name, content))
        return (await self._sender.fetch(call)).decode_as(File)

    async def delete(self, file_id: str) -> None:
        """Delete a file. Raises NotFound."""
        await self._sender.fetch(ApiCall(method="DELETE", path=f"/v1/files/{quote_segment(file_id)}"))


class Files:
    """The same for blocking callers."""

    def __init__(self, files: AsyncFiles) -> None:
        self._files = files

    def upload(self, name: str, content: bytes) -> File:
        """Store a file, as `AsyncFiles.upload` does."""
        return run(self._files.upload(name, content))

    def delete(self, file_id: str) -> None:
        """Delete a file, as `AsyncFiles.delete` does."""
        run(self._files.delete(file_id))
