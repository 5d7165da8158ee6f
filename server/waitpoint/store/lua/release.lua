-- Gives a lease up, unless the thread was decided on in the meantime.
--
-- KEYS  1 thread (hash)  2 due (sorted set)
-- ARGV  1 thread name  2 fence  3 rev that the holder has seen  4 due
-- Returns {'released'} | {'fenced'} | {'moved', head}

local now = clock()
local held = redis.call('HMGET', KEYS[1], 'fence', 'owner', 'rev')
if held[1] ~= ARGV[2] or (held[2] or '') == '' then
  return {'fenced'}
end
if (held[3] or '0') ~= ARGV[3] then
  return {'moved', read_head(KEYS[1], now)}
end
redis.call('HSET', KEYS[1], 'owner', '', 'nonce', '', 'until', 0, 'crashes', 0)
schedule(KEYS[2], ARGV[1], ARGV[4], now)
return {'released'}
