"""The names that a model sees: its provider takes them, and no two are the same."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from agentchat.tool_runner.tools.listing import choose_visible_names

PROVIDER_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


def test_names_that_do_not_collide_stay_as_they_are() -> None:
    tools = [("shop", "get_order"), ("crm", "find-customer")]
    assert choose_visible_names(tools) == {tools[0]: "get_order", tools[1]: "find-customer"}


def test_only_the_names_that_collide_are_prefixed() -> None:
    names = choose_visible_names([("shop", "search"), ("crm", "search"), ("crm", "open_case")])
    assert sorted(names.values()) == ["crm_search", "open_case", "shop_search"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "a_b", "b-c"]), st.text(min_size=1) | st.sampled_from(["x.y", "x/y"])
        ),
        unique=True,
        max_size=8,
    )
)
def test_names_are_unique_fit_and_independent_of_order(tools: list[tuple[str, str]]) -> None:
    names = choose_visible_names(tools)
    assert all(PROVIDER_NAME.match(name) for name in names.values())
    assert len(set(names.values())) == len(tools)
    for order in itertools.islice(itertools.permutations(tools), 6):
        assert choose_visible_names(order) == names


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    names = choose_visible_names([("s", "x" * 200 + "1"), ("s", "x" * 200 + "2")])
    assert {len(name) for name in names.values()} == {64}
    assert len(set(names.values())) == 2
