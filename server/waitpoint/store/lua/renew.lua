-- Moves the end of a lease.
--
-- KEYS  1 thread (hash)  2 due (sorted set)
-- ARGV  1 thread name  2 fence  3 lease in milliseconds
-- Returns {1 if the lease is still this fence's, else 0, now}

local held = redis.call('HMGET', KEYS[1], 'fence', 'owner')
local now = clock()
if held[1] ~= ARGV[2] or (held[2] or '') == '' then
  return {'0', tostring(now)}
end
local ends = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'until', ends)
redis.call('ZADD', KEYS[2], ends, ARGV[1])
return {'1', tostring(now)}
