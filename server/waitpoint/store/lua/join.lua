-- Everything that a view of a thread is made of, at one moment.
--
-- KEYS  1 thread (hash)  2 log (stream)  3 messages (list)
-- ARGV  1 how many finished messages, at most
-- Returns {head, checkpoint, checkpoint position, entries after it, messages up to it, number of older messages}

local page = tonumber(ARGV[1])
local head = read_head(KEYS[1], clock())
local marks = redis.call('HMGET', KEYS[1], 'cp', 'cpseq', 'cpmsg')
local position, finished = tonumber(marks[2] or '0'), tonumber(marks[3] or '0')
local entries = redis.call('XRANGE', KEYS[2], position + 1, '+')
local messages, from = {}, math.max(0, finished - page)
if from < finished then
  messages = redis.call('LRANGE', KEYS[3], from, finished - 1)
end
return {head, marks[1] or '', tostring(position), entries, messages, tostring(from)}
