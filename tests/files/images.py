"""The smallest images of each accepted type."""

import struct
import zlib


def make_png(width: int = 2, height: int = 2) -> bytes:
    """Make a grey PNG; a large one is small too."""
    rows = zlib.compress(b"".join(bytes(1 + width) for _ in range(min(height, 64))))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


GIF = b"GIF89a" + struct.pack("<HH", 3, 2) + bytes(8) + b";"
WEBP = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\x02\0\0\x01\0\0"
JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080002000301011100ffd9")
