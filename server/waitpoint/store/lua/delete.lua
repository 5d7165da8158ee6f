-- Removes a thread and tells its followers. A driver that still streams is fenced by the missing hash.
--
-- KEYS  1 thread (hash)  2 log (stream)  3 messages (list)  4 values (hash)  5 outcomes (hash)
--       6 due (sorted set)  7 pending (hash)
-- ARGV  1 thread name  2 channel  3.. ids in the pending index
-- Returns 1 if there was a thread, else 0

local existed = redis.call('DEL', KEYS[1])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
redis.call('ZREM', KEYS[6], ARGV[1])
for i = 3, #ARGV do
  redis.call('HDEL', KEYS[7], ARGV[i])
end
redis.call('PUBLISH', ARGV[2], '\n0\n0\n\n\n')
return existed
