-- Put in front of every script: the clock and the head of a thread.
-- Numbers stay exact in Lua's own number formatting below 1e14; milliseconds and positions do.

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns {log, seq, tag, rev, mark, control, fence, owner, until, now}; what is not there is nil.
local function read_head(key, now)
  local head = redis.call('HMGET', key, 'log', 'seq', 'tag', 'rev', 'mark', 'control', 'fence', 'owner', 'until')
  head[10] = tostring(now)
  return head
end

-- Sets when a thread is due: '' leaves it alone, '-' is never, '0' is now, else milliseconds.
local function schedule(key, thread, due, now)
  if due == '-' then
    redis.call('ZREM', key, thread)
  elseif due == '0' then
    redis.call('ZADD', key, now, thread)
  elseif due ~= '' then
    redis.call('ZADD', key, due, thread)
  end
end
