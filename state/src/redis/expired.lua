-- The unresolved records of a shard whose retention is over. Completed ones leave by Redis' own
-- expiry, since nobody counts them.
--
-- KEYS  1 to 5
-- ARGV  2 how many at most
-- Returns expired with their identities. Writes nothing.

look()
local identities =
  redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', '(' .. now_text, 'LIMIT', '0', ARGV[2])
return {now, 'expired', identities}
