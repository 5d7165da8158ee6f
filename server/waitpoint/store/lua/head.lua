-- Where a thread stands.
--
-- KEYS  1 thread (hash)
-- Returns head

return read_head(KEYS[1], clock())
