-- Drops a record that `expired` has found, unless it has changed since, and counts it.
--
-- Does not stamp the store: a sweep must run where Redis has no memory left, too. A record that
-- is damaged, or has gone, leaves with its entry in the index.
--
-- Returns swept with 1 or 0.

look()
local identity = string.sub(KEYS[6], -64)
local expires = redis.call('ZSCORE', KEYS[5], identity)
if not expires or tonumber(expires) >= now then return {now, 'swept', 0} end

local got = redis.pcall('HMGET', KEYS[6], 'head', 'terms')
local record = got[1] and got[2] and parse(got[1], got[2])
if record and now <= expires_at(record) then
  -- The index is of an earlier life of the record: it is mended, and the record stays.
  if record.open then
    redis.call('ZADD', KEYS[5], int(expires_at(record)), identity)
  else
    redis.call('ZREM', KEYS[4], identity)
    redis.call('ZREM', KEYS[5], identity)
  end
  return {now, 'swept', 0}
end
expire({open = true})
return {now, 'swept', 1}
