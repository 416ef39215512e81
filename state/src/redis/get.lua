-- One record as it is kept, for the server to read; it also judges whether it has expired.
--
-- Returns the time, then head, terms, created_at, fingerprint, derived_key, past, subject,
-- gateway and outcome, each nil where it is not there; or unreadable. Writes nothing.

look()
local got = redis.pcall('HMGET', KEYS[6], 'head', 'terms', 'created_at', 'fingerprint',
  'derived_key', 'past', 'subject', 'gateway', 'outcome')
if got.err then return unreadable(got.err) end
return {now, 'record', unpack(got, 1, 9)}
