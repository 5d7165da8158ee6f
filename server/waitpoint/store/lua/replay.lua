-- What follows a cursor. The entry that ends at the cursor must carry the cursor's tag, or the log has forked.
--
-- KEYS  1 thread (hash)  2 log (stream)
-- ARGV  1 log  2 seq  3 tag  4 most events  5 most bytes of bodies (one entry always comes)
-- Returns {'replay', log, seq, tag, more, entries} with the head's cursor | {'gone'} | {'forked'} | {'log-lost'}

local log, seq, tag = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local events_left, bytes_left = tonumber(ARGV[4]), tonumber(ARGV[5])
local head = redis.call('HMGET', KEYS[1], 'log', 'seq', 'tag')
local has_log, has_seq, has_tag = head[1] or '', tonumber(head[2] or '0'), head[3] or ''

local function found(entries, more)
  return {'replay', has_log, tostring(has_seq), has_tag, more, entries}
end

-- The empty cursor of a thread that did not exist precedes any first log.
if log ~= has_log and not (log == '' and seq == 0) then
  return {'log-lost'}
end
if seq > has_seq then
  return {'forked'}
end
if seq == has_seq then
  if tag ~= has_tag then
    return {'forked'}
  end
  return found({}, '0')
end

local from
if seq == 0 then
  if tag ~= '' then
    return {'forked'}
  end
  local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
  if not oldest or oldest[1] ~= '1-0' then
    return {'gone'}
  end
  from = '-'
else
  local entry = redis.call('XREVRANGE', KEYS[2], seq, '-', 'COUNT', 1)[1]
  if not entry then
    return {'gone'}
  end
  local last = tonumber(string.match(entry[1], '^%d+')) + tonumber(entry[2][2]) - 1
  if last ~= seq or entry[2][6] ~= tag then
    return {'forked'}
  end
  from = '(' .. entry[1]
end

local entries = {}
while true do
  local chunk = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 128)
  for _, entry in ipairs(chunk) do
    if #entries > 0 and (events_left <= 0 or bytes_left <= 0) then
      return found(entries, '1')
    end
    entries[#entries + 1] = entry
    events_left = events_left - tonumber(entry[2][2])
    bytes_left = bytes_left - #entry[2][8]
  end
  if #chunk < 128 then
    return found(entries, '0')
  end
  from = '(' .. chunk[#chunk][1]
end
