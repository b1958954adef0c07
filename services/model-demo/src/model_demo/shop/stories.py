"""A text of some length, for those who want to see one stream by."""

from itertools import cycle, islice

STORY = """\
Every morning, before the first customer wakes, the lamps of the demo shop come on one after the other. \
The tents stand in a row, the boots wait in their boxes, and the kettle in the back room begins to sing.

The first order of the day is always a small one. Somebody far away has a torn glove, or a birthday to \
remember, and the parcel that leaves the door is light. It is packed as carefully as the heavy ones: paper, \
a note, a label, and a pat on the lid.

By noon the shop is loud. Boxes slide, scanners chirp, and the courier asks for a pen, as he has done every \
day for years. A backpack leaves for the mountains. A lantern leaves for the sea. A returned jacket comes \
home, is brushed and mended, and goes back to its hook.

In the evening the last parcel is counted and the lamps go out again, one after the other. Only the little \
light above the order book stays on, in case somebody asks, late at night, where their parcel is. And \
somebody always does."""
"""A story of about 170 words."""


def of_length(count: int) -> str:
    """A text of exactly `count` words."""
    return " ".join(islice(cycle(STORY.split()), count))
