"""The month's tokens: counted from the log again, while runs go on to be settled next to the count."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from limits import Limiter, Quota, lua_scripts
from limits.quota import microseconds, name_of, number_of
from tests.limits.given import Counted, at, new, set_month

QUOTA = Quota(tokens_per_month=1_000_000)


class World:
    """A log and a limiter of one account, with a clock of their own that only moves forward."""

    def __init__(self, limiter: Limiter, redis: "Redis") -> None:
        self.limiter = limiter
        self.redis = redis
        self.account = new()
        self.log: list[tuple[str, int, str]] = []
        self.seconds = 0.0

    async def do(self, ops: Sequence[Any]) -> None:
        for name, value in ops:
            await getattr(self, name)(value)

    async def wait(self, seconds: int) -> None:
        self.seconds += seconds

    async def end(self, tokens: int) -> None:
        self.seconds += 0.001
        self.log.append((new(), tokens, at_in_month(self.seconds)))

    async def settle(self, place: int) -> None:
        """Any run that has ended, be it for the first time or again."""
        if self.log:
            await self.limiter.settle(self.account, *self.log[place % len(self.log)])

    async def lose(self, _: int) -> None:
        async for key in self.redis.scan_iter(f"limits:{{{self.account}}}:*"):
            await self.redis.delete(key)

    async def count(self, others: tuple[Sequence[Any], Sequence[Any]]) -> bool:
        before, after = others

        async def counted() -> Counted:
            await self.do(before)
            counted_to = at_in_month(max(0.0, self.seconds - 120))
            found = Counted(
                tokens=sum(tokens for _, tokens, _ in self.log),
                recent={trace: tokens for trace, tokens, ended in self.log if ended > counted_to},
                counted_to=counted_to,
            )
            await self.do(after)
            return found

        return await self.limiter.recount_month(self.account, counted)


def at_in_month(seconds: float) -> str:
    """The month's first minutes are as good as any: what is compared is never Redis's own time."""
    minutes, rest = divmod(seconds, 60)
    return f"{at()[:7]}-01T{int(minutes) // 60:02}:{int(minutes) % 60:02}:{rest:09.6f}Z"


SIMPLE = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 1000)),
    st.tuples(st.just("settle"), st.integers(0, 20)),
    st.tuples(st.just("settle"), st.integers(0, 20)),
    st.tuples(st.just("wait"), st.sampled_from([1, 50, 100, 200])),
    st.tuples(st.just("lose"), st.just(0)),
)
COUNTS = st.tuples(st.just("count"), st.tuples(st.lists(SIMPLE, max_size=3), st.lists(SIMPLE, max_size=4)))
NESTED = st.tuples(
    st.just("count"),
    st.tuples(st.lists(SIMPLE | COUNTS, max_size=3), st.lists(SIMPLE | COUNTS, max_size=3)),
)


@settings(max_examples=150)
@given(st.lists(SIMPLE | COUNTS | NESTED, max_size=14))
async def test_once_known_and_settled_the_month_is_what_the_log_says(
    redis_url: str, story: list[Any]
) -> None:
    limiter = Limiter(redis_url, instance="test", timeout=5)
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        world = World(limiter, redis)
        await world.do(story)
        kept = await limiter.kept_month(world.account)
        if not kept.known:
            assert await world.count(([], []))
        for place in range(len(world.log)):
            await world.settle(place)
        kept = await limiter.kept_month(world.account)
        await world.lose(0)
    await limiter.aclose()
    assert kept.known is True
    assert kept.tokens == sum(tokens for _, tokens, _ in world.log)


async def test_only_the_count_that_began_last_is_believed(limiter: Limiter) -> None:
    account = new()

    async def overtaken() -> Counted:
        await set_month(limiter, account, 7)
        return Counted(tokens=3)

    assert not await limiter.recount_month(account, overtaken)
    assert (await limiter.kept_month(account)).tokens == 7


async def test_a_run_belongs_to_the_month_in_which_it_ended(limiter: Limiter) -> None:
    account = new()

    async def empty() -> Counted:
        return Counted(tokens=0, counted_to="2020-01-01T00:00:00Z")

    assert await limiter.recount_month(account, empty)
    await limiter.settle(account, new(), 10, "2020-02-29T23:59:59.999999Z")
    await limiter.settle(account, new(), 5, at())
    assert (await limiter.kept_month(account)).tokens == 5


async def test_a_count_of_another_month_is_refused(limiter: Limiter) -> None:
    async def late() -> Counted:
        return Counted(tokens=3, month="2020-02")

    assert not await limiter.recount_month(new(), late)


async def test_a_count_is_asked_for_while_the_month_is_unknown_or_old(redis_url: str) -> None:
    asked: list[tuple[str, bool]] = []
    limiter = Limiter(
        redis_url, instance="test", timeout=5, on_month=lambda account, known: asked.append((account, known))
    )
    account = new()
    unknown = await limiter.admit(account, QUOTA, new())
    assert unknown.allowed is True
    assert unknown.tokens_remaining is None
    assert unknown.month_reset_s is None
    await limiter.admit(account, Quota(), new())  # a plan without a month asks for none
    assert asked == [(account, False)]
    await set_month(limiter, account, 400)
    known = await limiter.admit(account, QUOTA, new())
    assert known.tokens_remaining == 999_600
    assert known.month_reset_s is not None
    assert asked == [(account, False)]
    async with Redis.from_url(redis_url) as redis:
        await redis.hincrby(f"limits:{{{account}}}:month", "known", -lua_scripts.KNOWN_SECONDS)
    old = await limiter.admit(account, QUOTA, new())
    assert old.month_known is True
    assert old.tokens_remaining == 999_600
    assert asked[1:] == [(account, True)]
    await limiter.aclose()


@given(st.integers(1970, 2199), st.integers(1, 12))
def test_months_have_one_number_here_and_in_redis(year: int, month: int) -> None:
    name = f"{year}-{month:02}"
    assert name_of(number_of(name)) == name


async def test_redis_numbers_months_as_we_do(limiter: Limiter) -> None:
    assert (await limiter.kept_month(new())).month == at()[:7]
    assert microseconds("1970-01-02T00:00:00.000001Z") == 86_400_000_001
