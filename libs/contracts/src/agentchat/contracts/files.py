"""Describe stored files as events, messages and the API carry them: never their bytes."""

import msgspec

MAX_FILE_BYTES = 32 * 1024 * 1024
"""The largest file that is stored."""

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
    def is_image(self) -> bool:
        """True if a model sees it as an image."""
        return self.media_type in IMAGE_TYPES
