"""The decisions as Lua: each runs atomically in Redis, by Redis's own clock, in one round trip.

An account has these keys, in one hash slot of a cluster:
  rate      string  theoretical arrival time in microseconds (GCRA)
  reads     string  the same, of what is asked next to the chat endpoints
  writes    string  the same, of writes to conversations without a run
  slots     zset    trace_id -> when its lease ends, in milliseconds
  month     hash    month (see `_MONTH`), tokens,
                    known (Unix time in s at which the log was counted, or the month began here),
                    counted_to (Unix time in us: what ended up to there is in that count),
                    counting (the name of the count under way, whose result will be believed),
                    dear (what a run may well cost, in tokens: the dearest of late, see RELEASE)
  unbooked  hash    trace_id -> tokens:ended_us of what was settled since that count began
and each settled run a mark, so that its tokens are counted once however often it is released. How a count
and the settlements next to it add up: decision 14.
"""

SETTLED_SECONDS = 3600
KNOWN_SECONDS = 3600
"""How long a count is believed: Redis may have come back with the state of some time ago."""

RESERVED_TOKENS = 4096
"""What a run under way keeps of the month's tokens at least; more where the account's runs cost more."""

_MONTH_SECONDS = 40 * 86400
_UNBOOKED_SECONDS = 3600

_CLOCK = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now / 1000)
"""

# KEYS[1] has the theoretical arrival time. Never further ahead than a full burst: heals a clock that was set
# back, or a rate that was raised.
_RATE = """
local function arrival(interval, burst)
  local tat = tonumber(redis.call('GET', KEYS[1]) or now)
  return math.max(now, math.min(tat, now + interval * burst))
end
local function arrive(tat)
  redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1000)
end
"""

# Days since 1970 to a civil date, by counting from 1 March of year 0, so that a leap day ends its year: the
# number of a month is year * 12 + month from there.
_MONTH = """
local function month_and_rest(seconds)
  local z = math.floor(seconds / 86400) + 719468
  local era = math.floor(z / 146097)
  local day = z - era * 146097
  local leaps = math.floor(day / 1460) - math.floor(day / 36524) + math.floor(day / 146096)
  local year = math.floor((day - leaps) / 365)
  local yday = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local m = math.floor((5 * yday + 2) / 153)
  local mday = yday - math.floor((153 * m + 2) / 5)
  year = year + era * 400
  local length = ({31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 28})[m + 1]
  if m == 11 then
    local leap = year + 1
    if leap % 4 == 0 and (leap % 100 ~= 0 or leap % 400 == 0) then length = 29 end
  end
  local rest = (length - mday) * 86400 - seconds % 86400
  return year * 12 + m, rest
end
local month, rest = month_and_rest(tonumber(clock[1]))
-- A month that followed the kept one began at no tokens, and every settlement since then was seen here.
local function roll(key)
  local kept = redis.call('HGET', key, 'month')
  if kept and tonumber(kept) ~= month then
    redis.call('HSET', key, 'month', month, 'tokens', 0, 'known', clock[1])
    redis.call('HDEL', key, 'counted_to', 'counting')
  end
end
"""

# KEYS: rate, slots, month. ARGV: trace_id, interval in us (0: no rate), burst, runs (-1: any number),
# tokens (-1: any number), slot's lease in ms (0: the rate alone is asked, and no slot is taken).
# A slot is a reservation too: each keeps back what a run may well cost, so that those under way cannot spend
# a month's tokens several times over. It ends with the slot, however that ends.
# Returns {code, retry_us, remaining, reset_us, known, runs, tokens, rest}; code 0 admitted, 1 rate, 2 runs,
# 3 tokens spent, 4 tokens reserved; known 0 never counted, 1 known, 2 counted too long ago; runs and tokens
# so far; the month's rest in seconds.
ADMIT = (
    _CLOCK
    + _MONTH
    + _RATE
    + f"local KNOWN_SECONDS, RESERVED_TOKENS = {KNOWN_SECONDS}, {RESERVED_TOKENS}"
    + """
local trace, interval, burst = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local runs, tokens, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local window = interval * burst
local tat = arrival(interval, burst)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
roll(KEYS[3])
local month_so_far = redis.call('HMGET', KEYS[3], 'tokens', 'known', 'dear')
local used, counted = tonumber(month_so_far[1] or 0), tonumber(month_so_far[2] or 0)
local reserves = math.max(RESERVED_TOKENS, tonumber(month_so_far[3] or 0))
local known = counted == 0 and 0 or (clock[1] - counted < KNOWN_SECONDS and 1 or 2)
local function answer(code, retry)
  local remaining = interval > 0 and math.floor((now + window - tat) / interval) or 0
  return {code, math.ceil(retry), remaining, tat - now, known, redis.call('ZCARD', KEYS[2]), used, rest}
end

local held = redis.call('ZSCORE', KEYS[2], trace)
local function take_slot()
  redis.call('ZADD', KEYS[2], 'GT', now_ms + lease, trace)
  if redis.call('PTTL', KEYS[2]) < lease + 1000 then redis.call('PEXPIRE', KEYS[2], lease + 1000) end
end
if held then
  take_slot()
  return answer(0, 0)
end

local is_run = lease > 0
if is_run and tokens >= 0 and used >= tokens then return answer(3, rest * 1000000) end
if interval > 0 and tat + interval - window > now then return answer(1, tat + interval - window - now) end
if is_run then
  local under_way = redis.call('ZCARD', KEYS[2])
  if runs >= 0 and under_way >= runs then return answer(2, 1000000) end
  if tokens >= 0 and used + under_way * reserves >= tokens then return answer(4, 1000000) end
end

if interval > 0 then
  tat = tat + interval
  arrive(tat)
end
if is_run then take_slot() end
return answer(0, 0)
"""
)

# KEYS: reads, or writes. ARGV: interval in us, burst. Returns the microseconds to wait: 0 where it has taken
# a token.
READ = (
    _CLOCK
    + _RATE
    + """
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = arrival(interval, burst) + interval
local wait = tat - interval * burst - now
if wait > 0 then return math.ceil(wait) end
arrive(tat)
return 0
"""
)

# KEYS: slots, then the settled mark of each run. ARGV: lease in ms, then the runs' trace_ids.
HOLD = (
    _CLOCK
    + """
local lease = tonumber(ARGV[1])
for i = 2, #ARGV do
  if redis.call('EXISTS', KEYS[i]) == 0 then
    redis.call('ZADD', KEYS[1], 'GT', now_ms + lease, ARGV[i])
  end
end
if redis.call('PTTL', KEYS[1]) < lease + 1000 then redis.call('PEXPIRE', KEYS[1], lease + 1000) end
return 1
"""
)

# KEYS: slots, month, unbooked, settled mark. ARGV: trace_id, tokens, when the run ended in us (0: it did
# not), and the month in which it did. What a run may well cost rises to a dear one at once, and falls slowly.
RELEASE = (
    _CLOCK
    + _MONTH
    + f"""
redis.call('ZREM', KEYS[1], ARGV[1])
local tokens, ended = tonumber(ARGV[2]), tonumber(ARGV[3])
if ended == 0 or not redis.call('SET', KEYS[4], 1, 'NX', 'EX', {SETTLED_SECONDS}) then return 0 end
roll(KEYS[2])
if tokens > 0 then
  local dear = tonumber(redis.call('HGET', KEYS[2], 'dear') or 0)
  redis.call('HSET', KEYS[2], 'dear', math.max(tokens, math.ceil(dear - (dear - tokens) / 8)))
  redis.call('EXPIRE', KEYS[2], {_MONTH_SECONDS})
end
local kept = redis.call('HMGET', KEYS[2], 'counted_to', 'counting')
local is_counted = kept[1] and ended <= tonumber(kept[1])
if tokens <= 0 or tonumber(ARGV[4]) < month or is_counted then return 1 end
redis.call('HSETNX', KEYS[2], 'month', month)
redis.call('HINCRBY', KEYS[2], 'tokens', tokens)
redis.call('EXPIRE', KEYS[2], {_MONTH_SECONDS})
if kept[2] then
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[2] .. ':' .. ARGV[3])
  redis.call('EXPIRE', KEYS[3], {_UNBOOKED_SECONDS})
end
return 1
"""
)

# KEYS: month, unbooked. ARGV: the name of this count. Whatever was settled before is in the log by now.
BEGIN_COUNT = (
    _CLOCK
    + _MONTH
    + f"""
roll(KEYS[1])
redis.call('HSET', KEYS[1], 'month', month, 'counting', ARGV[1])
redis.call('EXPIRE', KEYS[1], {_MONTH_SECONDS})
redis.call('DEL', KEYS[2])
return 1
"""
)

# KEYS: month, unbooked, then the settled mark of each recent run. ARGV: the name of the count, its month, its
# tokens, the time in us up to which it is complete, then the trace_ids of the runs that it has behind that.
# Returns 1; 0 where another count has begun since, or another month.
SET_MONTH = (
    _CLOCK
    + _MONTH
    + f"""
local counting = redis.call('HGET', KEYS[1], 'counting')
if counting ~= ARGV[1] or month ~= tonumber(ARGV[2]) then return 0 end
local tokens, counted_to, counted = tonumber(ARGV[3]), tonumber(ARGV[4]), {{}}
for i = 5, #ARGV do
  counted[ARGV[i]] = true
  redis.call('SET', KEYS[i - 2], 1, 'NX', 'EX', {SETTLED_SECONDS})
end
local unbooked = redis.call('HGETALL', KEYS[2])
for i = 1, #unbooked, 2 do
  local spent, ended = string.match(unbooked[i + 1], '(%d+):(%d+)')
  if not counted[unbooked[i]] and tonumber(ended) > counted_to then tokens = tokens + tonumber(spent) end
end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[1], 'tokens', string.format('%.0f', tokens), 'known', clock[1], 'counted_to', ARGV[4])
redis.call('HDEL', KEYS[1], 'counting')
redis.call('EXPIRE', KEYS[1], {_MONTH_SECONDS})
return 1
"""
)

# KEYS: month. Returns {month, tokens, known}, the month as this clock has it; known as in ADMIT.
READ_MONTH = (
    _CLOCK
    + _MONTH
    + f"""
local kept = redis.call('HMGET', KEYS[1], 'month', 'tokens', 'known')
if not kept[1] or tonumber(kept[1]) ~= month then return {{month, 0, kept[1] and 1 or 0}} end
local counted = tonumber(kept[3] or 0)
local known = counted == 0 and 0 or (clock[1] - counted < {KNOWN_SECONDS} and 1 or 2)
return {{month, tonumber(kept[2] or 0), known}}
"""
)
