"""Read the content of messages of both of OpenAI's APIs: texts, and files if the role may have them."""

from collections.abc import Sequence

import msgspec

from agentchat.gateway.attachments.requested_attachment import (
    RequestedAttachment,
    build_attachment_refusal,
    read_attachment,
)

_TEXTS = ("text", "input_text", "output_text")
_FILES = ("image_url", "file", "input_image", "input_file")


class OpenAiFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file: uploaded, at a URL, or as base64 in `file_data`."""

    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    filename: str | None = None


class OpenAiImage(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an image: https or data."""

    url: str


class OpenAiPart(OpenAiFile, frozen=True, kw_only=True):
    """A piece of a message's content. Responses has the fields of a file in the part itself."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | OpenAiImage | None = None
    file: OpenAiFile | None = None


Content = str | Sequence[OpenAiPart] | None


def read_content(
    content: Content, path: str, *, takes_files: bool = False
) -> tuple[str, list[RequestedAttachment]]:
    """Return the text and the files of a message's content, which is at `path`. Raises Refusal: 400."""
    if content is None or isinstance(content, str):
        return content or "", []
    texts, files = [], []
    for index, part in enumerate(content):
        place = f"{path}[{index}]"
        if part.type in (*_TEXTS, "refusal"):
            texts.append((part.refusal if part.type == "refusal" else part.text) or "")
        elif part.type in _FILES and takes_files:
            files.append(_read_file(part, place))
        else:
            where = "but in messages of the user" if part.type in _FILES else "here"
            raise build_attachment_refusal(place, f"No {part.type[:40]} can be read {where}.")
    return "\n".join(texts), files


def _read_file(part: OpenAiPart, path: str) -> RequestedAttachment:
    source = part.file if part.type == "file" and part.file is not None else part
    is_image = part.type in ("image_url", "input_image")
    image = part.image_url.url if isinstance(part.image_url, OpenAiImage) else part.image_url
    return read_attachment(
        path,
        file_id=source.file_id,
        url=image if is_image else source.file_url,
        data=None if is_image else source.file_data,
        name=source.filename,
        is_image=is_image,
    )
