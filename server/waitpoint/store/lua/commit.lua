-- One atomic change of a thread. All guards come first; if one fails nothing is written.
--
-- KEYS  1 thread (hash)  2 log (stream)  3 messages (list)  4 values (hash)  5 outcomes (hash)
--       6 due (sorted set)  7 pending (hash)
-- ARGV  1 thread name  2 channel  3 expected log ('' = must not exist)  4 log id of a new thread
--       5 expected rev ('' = unguarded)  6 fence ('' = not a driver)  7 batch number ('0' = unnumbered)
--       8 event count  9 tag  10 body  11 flags: any of c (control), k (checkpoint), r (release)
--       12 control  13 checkpoint  14 events kept behind the checkpoint  15 due
--       16 expected mark ('' = unguarded)
--       17.. number of outcomes, puts, drops, messages, pending puts, pending drops (6 numbers), then their items in
--       that order; outcomes, puts and pending puts as name, value
-- Returns {'committed', repeated, log, seq, count, prev, tag, rev, now}
--       | {'conflict', head} | {'fenced', fence} | {'known', name, outcome}

local THREAD, LOG, MESSAGES, VALUES, OUTCOMES, DUE, PENDING = unpack(KEYS)
local name, channel, log, new_log, rev, fence, batch = unpack(ARGV, 1, 7)
local count, tag, body, flags = tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11]
local control, checkpoint, keep, due, mark = ARGV[12], ARGV[13], tonumber(ARGV[14]), ARGV[15], ARGV[16]
local releases = string.find(flags, 'r', 1, true)

local now = clock()
local held = redis.call('HMGET', THREAD, 'log', 'seq', 'tag', 'rev', 'fence', 'owner', 'batch', 'result', 'mark')
local has_log, owner = held[1] or '', held[6] or ''

if fence ~= '' then
  if held[5] ~= fence or has_log ~= log then
    return {'fenced', held[5] or '0'}
  end
  if batch ~= '0' then
    if held[7] == batch then
      local first = {'committed', '1'}
      for field in string.gmatch(held[8] .. '\n', '([^\n]*)\n') do
        first[#first + 1] = field
      end
      first[#first + 1] = tostring(now)
      return first
    end
    local last = tonumber(held[7] or '0')
    if tonumber(batch) < last then
      return redis.error_reply('WPBATCH number ' .. batch .. ' after ' .. held[7] .. ' under the same fence')
    end
    -- What this driver wrote in between was acknowledged and is gone: a failover lost it. Whatever it goes on with
    -- would have a hole before it, so another one starts from what is left.
    if tonumber(batch) > last + 1 then
      return {'fenced', fence}
    end
  end
  -- The fence only rises with a claim, so a lease that ran out and was not claimed again is still this writer's.
  if owner == '' then
    return {'fenced', fence}
  end
end

-- After a failover that lost commits the same rev comes again for another state; the mark does not.
if has_log ~= log or (rev ~= '' and rev ~= (held[4] or '0')) or (mark ~= '' and mark ~= (held[9] or '')) then
  return {'conflict', read_head(THREAD, now)}
end

local outcomes, puts, drops, messages, pends, unpends = unpack(ARGV, 17, 22)
local at = 23
for i = at, at + 2 * outcomes - 1, 2 do
  local outcome = redis.call('HGET', OUTCOMES, ARGV[i])
  if outcome then
    return {'known', ARGV[i], outcome}
  end
end

-- Writes. The log entry comes first: it is the one write that Redis may refuse (a position that exists already).
local seq, prev = tonumber(held[2] or '0'), held[3] or ''
local first = seq + 1
if count > 0 then
  redis.call('XADD', LOG, first .. '-0', 'count', count, 'prev', prev, 'tag', tag, 'body', body)
  seq = seq + count
else
  tag = prev
end

for i = at, at + 2 * outcomes - 1, 2 do
  redis.call('HSET', OUTCOMES, ARGV[i], ARGV[i + 1])
end
at = at + 2 * outcomes
for i = at, at + 2 * puts - 1, 2 do
  redis.call('HSET', VALUES, ARGV[i], ARGV[i + 1])
end
at = at + 2 * puts
for i = at, at + drops - 1 do
  redis.call('HDEL', VALUES, ARGV[i])
end
at = at + drops
for i = at, at + messages - 1 do
  redis.call('RPUSH', MESSAGES, ARGV[i])
end
at = at + messages
for i = at, at + 2 * pends - 1, 2 do
  redis.call('HSET', PENDING, ARGV[i], ARGV[i + 1])
end
at = at + 2 * pends
for i = at, at + unpends - 1 do
  redis.call('HDEL', PENDING, ARGV[i])
end

local revision = tonumber(held[4] or '0')
local fields = {'seq', seq, 'tag', tag}
local function set(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
if log == '' then
  log = new_log
  set('log', log)
  set('format', 1)
end
if string.find(flags, 'c', 1, true) then
  revision = revision + 1
  set('mark', ARGV[9])
  set('control', control)
end
set('rev', revision)
if string.find(flags, 'k', 1, true) then
  set('cp', checkpoint)
  set('cpseq', seq)
  set('cpmsg', redis.call('LLEN', MESSAGES))
  -- The entry that holds the last kept position stays whole, so that a cursor there can still be checked.
  local edge = seq - keep
  if edge > 0 then
    local entry = redis.call('XREVRANGE', LOG, edge, '-', 'COUNT', 1)[1]
    if entry then
      redis.call('XTRIM', LOG, 'MINID', entry[1])
    end
  end
end
if fence ~= '' and batch ~= '0' then
  set('batch', batch)
  set('result', table.concat({log, first, count, prev, tag, revision}, '\n'))
end
if releases then
  owner = ''
  set('owner', '')
  set('nonce', '')
  set('until', 0)
  set('crashes', 0)
end
redis.call('HSET', THREAD, unpack(fields))

-- Under a lease the thread is due at the lease's end, whoever commits: that is what finds a driver that died.
if owner == '' then
  schedule(DUE, name, due, now)
end
if count > 0 then
  redis.call('PUBLISH', channel, table.concat({log, first, count, prev, tag, body}, '\n'))
end
return {'committed', '0', log, tostring(first), tostring(count), prev, tag, tostring(revision), tostring(now)}
