-- Stands between the prelude and the scripts whose execution brings a ticket (Renew, Complete).
--
-- ARGV  2 void_after  3 execution  4 fence  5 attempt  6 sent  7 fingerprint  8 derived key
--       9 on_ambiguous  10 attempts_max  11 lease  12 ttl  13 held_ttl  14 subject  15 gateway

-- A record made anew from what its execution knows. `complete` has its own further fields.
local function restored(state)
  count('restored')
  return {
    state = state, execution = ARGV[3], fence = tonumber(ARGV[4]), attempt = tonumber(ARGV[5]),
    sent = tonumber(ARGV[6]), revision = 1, created_at = now, changed_at = now,
    on_ambiguous = ARGV[9], attempts_max = tonumber(ARGV[10]), lease = tonumber(ARGV[11]),
    ttl = tonumber(ARGV[12]), held_ttl = tonumber(ARGV[13]),
  }
end
