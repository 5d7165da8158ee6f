-- Takes the lease of a thread that is due.
--
-- KEYS  1 thread (hash)  2 due (sorted set)
-- ARGV  1 thread name  2 owner  3 nonce of this claim  4 lease in milliseconds
-- Returns {'claimed', crashes, head} | {'busy', owner, until} | {'not-due'}

local name, owner, nonce, lease = unpack(ARGV)
local now = clock()
local held = redis.call('HMGET', KEYS[1], 'log', 'owner', 'nonce', 'until', 'fence', 'crashes')
local leased = held[2] and held[2] ~= ''
local crashes = tonumber(held[6] or '0')
local ends = now + tonumber(lease)

if not held[1] then
  redis.call('ZREM', KEYS[2], name)
  return {'not-due'}
end
if leased and held[3] == nonce then
  -- The reply of this very claim was lost. Nobody claimed since, so it stands.
  redis.call('HSET', KEYS[1], 'until', ends)
else
  if leased and tonumber(held[4]) > now then
    return {'busy', held[2], held[4]}
  end
  local due = redis.call('ZSCORE', KEYS[2], name)
  if not due or tonumber(due) > now then
    return {'not-due'}
  end
  if leased then
    crashes = crashes + 1
  else
    crashes = 0
  end
  -- Rises always, and differs between two histories of a thread: after a failover that lost a claim, the next
  -- number must not be the one that the forgotten driver still holds.
  local fence = math.max(tonumber(held[5] or '0') + 1, now)
  redis.call('HSET', KEYS[1], 'fence', fence, 'owner', owner, 'nonce', nonce, 'until', ends, 'crashes', crashes)
  redis.call('HDEL', KEYS[1], 'batch', 'result')
end
redis.call('ZADD', KEYS[2], ends, name)
return {'claimed', tostring(crashes), read_head(KEYS[1], now)}
