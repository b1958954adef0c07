"""Draw a bar chart as a PNG file, without a library: bars on white, a line below them."""

import struct
import zlib
from collections.abc import Sequence

WIDTH, HEIGHT = 480, 240
_MARGIN, _GAP = 12, 6
_WHITE, _GREEN, _GREY = range(3)
_COLOURS = bytes((255, 255, 255, 46, 125, 80, 120, 120, 120))


def draw_bars(values: Sequence[int]) -> bytes:
    """Return the PNG of at most 120 bars, whose heights are in proportion to the values."""
    top, base = max([*values, 1]), HEIGHT - _MARGIN
    step = (WIDTH - 2 * _MARGIN) / max(len(values), 1)
    gap = min(_GAP, int(step / 2))
    rows = [bytearray([_WHITE]) * WIDTH for _ in range(HEIGHT)]
    for index, value in enumerate(values):
        left, right = (int(_MARGIN + step * place) for place in (index, index + 1))
        height = max(0, value) * (base - _MARGIN) // top
        for row in rows[base - height : base]:
            row[left : right - gap] = bytes([_GREEN]) * max(0, right - gap - left)
    rows[base][_MARGIN : WIDTH - _MARGIN] = bytes([_GREY]) * (WIDTH - 2 * _MARGIN)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)  # 8 bits a pixel, by palette
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    chunks = ((b"IHDR", header), (b"PLTE", _COLOURS), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_encode_chunk(*chunk) for chunk in chunks)


def _encode_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
