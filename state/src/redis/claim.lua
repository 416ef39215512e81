-- Claim: may this request be executed? (core/src/transition/claim.rs)
--
-- ARGV  2 void_after  3 execution  4 on_ambiguous (r or h)  5 attempts_max  6 lease  7 ttl
--       8 held_ttl  9 subject  10 gateway  11, 12 and on: pairs of fingerprint and derived key
-- Returns void; claimed with fence, attempt, sent, lease left, fingerprint, derived key and
-- terms; refused with a verdict; or unreadable.

stamp()
if now > tonumber(ARGV[2]) then return {now, 'void'} end
local record, why = load()
if why then return unreadable(why) end

local execution, gateway = ARGV[3], ARGV[10]
local on_ambiguous, attempts_max = ARGV[4], tonumber(ARGV[5])
local lease, ttl, held_ttl = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

if not record then
  if not ARGV[12] then return {now, 'refused', 'mismatch'} end
  record = {
    state = 'p', execution = execution, fence = math.max(1, now), attempt = 1, sent = 1,
    revision = 1, created_at = now, changed_at = now, on_ambiguous = on_ambiguous,
    attempts_max = attempts_max, lease = lease, ttl = ttl, held_ttl = held_ttl,
    claimed_at = now, lease_until = now + lease, fingerprint = ARGV[11], derived_key = ARGV[12],
  }
  save(record, 'fingerprint', ARGV[11], 'derived_key', ARGV[12], 'subject', ARGV[9],
    'gateway', gateway)
  return claimed(record)
end

local equal = false
for at = 11, #ARGV, 2 do
  equal = equal or ARGV[at] == record.fingerprint
end
if not equal then return {now, 'refused', 'mismatch'} end

-- Terms only ever become stricter. What the rest does not write is written for this.
local tightened = false
if record.state ~= 'c' then
  if on_ambiguous == 'h' and record.on_ambiguous == 'r' then
    record.on_ambiguous, tightened = 'h', true
  end
  if attempts_max < record.attempts_max then
    record.attempts_max, tightened = attempts_max, true
  end
  if tightened then record.revision = record.revision + 1 end
end

local function unchanged(reply)
  if tightened then save(record) end
  return reply
end

-- The next attempt, if there may be one. `unknown` is whether the last may have succeeded.
local function again(last_status, unknown, lost)
  if record.sent >= record.attempts_max then
    return unchanged({now, 'refused', 'exhausted', last_status})
  end
  if unknown then suspect(record, record.execution, record.fence) end
  remember(record)
  record.execution = execution
  record.fence = math.max(record.fence + 1, now)
  record.attempt = record.attempt + 1
  record.sent = record.sent + 1
  -- The strictness is the record's; how long things last is up to the latest claim.
  record.lease, record.ttl, record.held_ttl = lease, ttl, held_ttl
  record.claimed_at, record.lease_until = now, now + lease
  enter(record, 'p')
  save(record, 'gateway', gateway)
  if lost then count('take_overs') end
  return claimed(record)
end

local state = record.state
local own, past = record.execution == execution, is_past(record, execution)
if state == 'p' and own then
  if lease_left(record) == 0 then
    record.lease_until = now + record.lease
    save(record)
    return claimed(record)
  end
  return unchanged(claimed(record))
elseif state == 'p' and lease_left(record) > 0 then
  return unchanged(tell('refused', record))
elseif state == 'p' and past then
  return unchanged({now, 'refused', 'spent'})
elseif state == 'p' and record.on_ambiguous == 'h' then
  record.last_status, record.lost_lease = 0, true
  enter(record, 'h')
  save(record)
  count('holds')
  return tell('refused', record)
elseif state == 'p' then
  return again(0, true, true)
elseif state == 'c' then
  return tell('refused', record)
elseif own or past then
  return unchanged({now, 'refused', 'spent'})
elseif state == 'r' and record.not_before <= now then
  return again(record.last_status, record.unknown, false)
end
return unchanged(tell('refused', record))
