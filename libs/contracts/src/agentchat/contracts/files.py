"""Describe stored files as events, messages and the API carry them: never their bytes."""

import msgspec

MAX_FILE_BYTES = 32 * 1024 * 1024
"""The largest file that is stored."""

MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""The largest image that a model gets: Anthropic refuses a request with a larger one."""

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The media types that a model sees as images and the console shows as thumbnails."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an account. Its bytes are in the object store under `sha256` (hexadecimal).

    `media_type` was found in the content, `bytes` is the size, `name` is the uploader's own.
    """

    file_id: str
    sha256: str
    media_type: str
    bytes: int
    name: str

    @property
    def estimated_tokens(self) -> int:
        """The tokens that it takes of a model's prompt, roughly."""
        return estimate_file_tokens(self.media_type, self.bytes)

    def to_link(self) -> "FileLink":
        """Return the file as API clients get it."""
        return FileLink(
            file_id=self.file_id,
            media_type=self.media_type,
            bytes=self.bytes,
            name=self.name,
            url=f"/v1/files/{self.file_id}/content",
        )

    @property
    def is_image(self) -> bool:
        """True if a model sees it as an image."""
        return self.media_type in IMAGE_TYPES


class FileLink(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file as API clients get it. `url` is the path of its bytes at this API."""

    file_id: str
    media_type: str
    bytes: int
    name: str
    url: str


IMAGE_TOKENS = 1_600
_MOST_TEXT_TOKENS = 50_000


def estimate_file_tokens(media_type: str, size: int) -> int:
    """Estimate how many tokens of a prompt a file of this size takes."""
    if media_type in IMAGE_TYPES:
        return IMAGE_TOKENS
    if media_type == "application/pdf":
        return max(IMAGE_TOKENS, size // 32)
    return min(size // 4, _MOST_TEXT_TOKENS)
