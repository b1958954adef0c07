"""Decide in Redis by Lua scripts: each is atomic, uses Redis' clock, and takes one round trip.

An account has these keys, in one hash slot of a cluster:
  rate    string  theoretical arrival time of chats in microseconds (GCRA)
  reads   string  the same for requests other than chats
  writes  string  the same for writes to conversations without a run
  slots   zset    trace_id -> end of its lease, in milliseconds
and each of its end users, named by a hash
  user:<hash>:rate   string  as `rate`
  user:<hash>:runs   zset    trace_ids, of which those count that have a slot
and each ended run has a mark, so that a late renewal does not take its slot again.
"""

ENDED_SECONDS = 120
"""Longer than a renewal may be on its way."""

USER_RUNS_SECONDS = 3600
"""Longer than a run may take."""

_CLOCK = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now / 1000)
"""

# Never further ahead than a full burst: heals a clock that was set back, or a rate that was raised.
_RATE = """
local function arrival(key, interval, burst)
  if interval == 0 then return now end
  local tat = tonumber(redis.call('GET', key) or now)
  return math.max(now, math.min(tat, now + interval * burst))
end
local function arrive(key, tat)
  redis.call('SET', key, string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1000)
end
"""

_LEASE = """
local function lease_slot(key, trace, lease)
  redis.call('ZADD', key, 'GT', now_ms + lease, trace)
  if redis.call('PTTL', key) < lease + 1000 then redis.call('PEXPIRE', key, lease + 1000) end
end
"""

# KEYS: rate, slots, rate and runs of the user. ARGV: trace_id, interval in us (0: no rate), burst, runs (-1:
# any number), slot's lease in ms (0: only the rate is checked, and no slot is taken), interval, burst and
# runs of the user. Who has a slot already is asked no rate again. Returns {retry_us, remaining, reset_us,
# runs, by_user} and {remaining, reset_us, runs} of the user; retry_us 0 if the request is admitted, by_user 1
# if the user's limits refuse it.
ADMIT = (
    _CLOCK
    + _RATE
    + _LEASE
    + f"""
local trace, interval, burst = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local runs, lease = tonumber(ARGV[4]), tonumber(ARGV[5])
local user_interval, user_burst, user_runs = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local window, user_window, retry, by_user, held = interval * burst, user_interval * user_burst, 0, 0, 0
local tat = arrival(KEYS[1], interval, burst)
local user_tat = arrival(KEYS[3], user_interval, user_burst)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
if user_runs >= 0 then
  for _, run in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
    if redis.call('ZSCORE', KEYS[2], run) then held = held + 1 else redis.call('ZREM', KEYS[4], run) end
  end
end
if not redis.call('ZSCORE', KEYS[2], trace) then
  if interval > 0 and tat + interval - window > now then
    retry = tat + interval - window - now
  elseif lease > 0 and runs >= 0 and redis.call('ZCARD', KEYS[2]) >= runs then
    retry = 1000000
  elseif user_interval > 0 and user_tat + user_interval - user_window > now then
    retry, by_user = user_tat + user_interval - user_window - now, 1
  elseif lease > 0 and user_runs >= 0 and held >= user_runs then
    retry, by_user = 1000000, 1
  else
    if interval > 0 then
      tat = tat + interval
      arrive(KEYS[1], tat)
    end
    if user_interval > 0 then
      user_tat = user_tat + user_interval
      arrive(KEYS[3], user_tat)
    end
  end
end
if retry == 0 and lease > 0 then
  lease_slot(KEYS[2], trace, lease)
  if user_runs >= 0 then
    held = held + redis.call('ZADD', KEYS[4], now_ms, trace)
    redis.call('PEXPIRE', KEYS[4], {USER_RUNS_SECONDS} * 1000)
  end
end
local function rest(interval, window, tat)
  return interval > 0 and math.floor((now + window - tat) / interval) or 0
end
return {{math.ceil(retry), rest(interval, window, tat), tat - now, redis.call('ZCARD', KEYS[2]), by_user,
        rest(user_interval, user_window, user_tat), user_tat - now, held}}
"""
)

# KEYS: reads, or writes. ARGV: interval in us, burst. Returns the microseconds to wait: 0 if it has taken
# a token.
TAKE = (
    _CLOCK
    + _RATE
    + """
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = arrival(KEYS[1], interval, burst) + interval
local wait = tat - interval * burst - now
if wait > 0 then return math.ceil(wait) end
arrive(KEYS[1], tat)
return 0
"""
)

# KEYS: slots, then the mark of each run. ARGV: lease in ms, then the runs' trace_ids.
HOLD = (
    _CLOCK
    + _LEASE
    + """
for i = 2, #ARGV do
  if redis.call('EXISTS', KEYS[i]) == 0 then lease_slot(KEYS[1], ARGV[i], tonumber(ARGV[1])) end
end
return 1
"""
)

# KEYS: slots, the run's mark. ARGV: trace_id, 1 if the run has ended, so that no renewal takes its slot.
RELEASE = f"""
redis.call('ZREM', KEYS[1], ARGV[1])
if ARGV[2] == '1' then redis.call('SET', KEYS[2], 1, 'EX', {ENDED_SECONDS}) end
return 1
"""
