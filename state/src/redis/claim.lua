-- Claim: may this request be executed? (core/src/transition/claim.rs)
--
-- ARGV  2 void_after  3 execution  4 terms  5 subject  6 gateway
--       7, 8 and on: pairs of fingerprint and derived key
-- Returns void; claimed with fence, attempt, sent, lease left, fingerprint, derived key and
-- terms; refused with a verdict; or unreadable.

stamp()
if now > tonumber(ARGV[2]) then return {now, 'void'} end
local record, why = load()
if why then return unreadable(why) end

local execution, terms, gateway = ARGV[3], ARGV[4], ARGV[6]

local function claimed(left)
  return {
    now, 'claimed', record.fence, record.attempt, record.sent, left,
    record.fingerprint, record.derived_key, record.terms,
  }
end

if not record then
  if not ARGV[8] then return {now, 'refused', 'mismatch'} end
  record = {
    state = 'p', execution = execution, fence = now_text, attempt = '1', sent = '1',
    revision = '1', changed_at = now_text, claimed_at = now_text, fingerprint = ARGV[7],
    derived_key = ARGV[8],
  }
  set_terms(record, terms)
  begin_lease(record)
  save(record, 'terms', terms, 'created_at', now_text, 'fingerprint', ARGV[7],
    'derived_key', ARGV[8], 'subject', ARGV[5], 'gateway', gateway)
  return claimed(record.lease)
end

local equal = false
for at = 7, #ARGV, 2 do
  equal = equal or ARGV[at] == record.fingerprint
end
if not equal then return {now, 'refused', 'mismatch'} end

-- What is asked for, where terms are not the record's own.
local asked = {}
set_terms(asked, terms)

-- The strictness is the record's; how long things last is as given.
local function join_terms(lease, ttl, held_ttl)
  set_terms(record, record.on_ambiguous .. ' ' .. record.attempts_max .. ' ' .. lease .. ' '
    .. ttl .. ' ' .. held_ttl)
end

-- Terms only ever become stricter. What the rest does not write is written for this.
local tightened = false
if record.state ~= 'c' and terms ~= record.terms then
  if asked.on_ambiguous == 'h' and record.on_ambiguous == 'r' then
    record.on_ambiguous, tightened = 'h', true
  end
  if tonumber(asked.attempts_max) < tonumber(record.attempts_max) then
    record.attempts_max, tightened = asked.attempts_max, true
  end
  if tightened then
    record.revision = int(record.revision + 1)
    join_terms(record.lease, record.ttl, record.held_ttl)
  end
end

local function unchanged(reply)
  if tightened then save(record, 'terms', record.terms) end
  return reply
end

-- The next attempt, if there may be one. `unknown` is whether the last may have succeeded.
local function again(last_status, unknown, lost)
  if tonumber(record.sent) >= tonumber(record.attempts_max) then
    return unchanged({now, 'refused', 'exhausted', last_status})
  end
  if unknown then suspect(record, record.execution, record.fence) end
  remember(record)
  record.execution = execution
  record.fence = int(math.max(record.fence + 1, now))
  record.attempt = int(record.attempt + 1)
  record.sent = int(record.sent + 1)
  join_terms(asked.lease, asked.ttl, asked.held_ttl)
  record.claimed_at = now_text
  begin_lease(record)
  enter(record, 'p')
  save(record, 'terms', record.terms, 'gateway', gateway)
  if lost then count('take_overs') end
  return claimed(record.lease)
end

-- The outcome is unknown, and the terms say not to guess.
local function hold(last_status, lost_lease)
  record.last_status, record.lost_lease = last_status, lost_lease
  enter(record, 'h')
  save(record, 'terms', record.terms)
  count('holds')
  return tell('refused', record)
end

local state, left = record.state, lease_left(record)
local own, past = record.execution == execution, is_past(record, execution)
if state == 'p' and own then
  if left > 0 then return unchanged(claimed(left)) end
  begin_lease(record)
  save(record, 'terms', record.terms)
  return claimed(record.lease)
elseif state == 'p' and left > 0 then
  return unchanged(tell('refused', record))
elseif state == 'p' and past then
  return unchanged({now, 'refused', 'spent'})
elseif state == 'p' and record.on_ambiguous == 'h' then
  return hold('0', true)
elseif state == 'p' then
  return again('0', true, true)
elseif state == 'c' then
  return tell('refused', record)
elseif own or past then
  return unchanged({now, 'refused', 'spent'})
elseif state == 'r' and record.unknown and not record.released and record.on_ambiguous == 'h' then
  -- It was left to be executed again under terms that this claim has made stricter.
  return hold(record.last_status, false)
elseif state == 'r' and tonumber(record.not_before) <= now then
  return again(record.last_status, record.unknown, false)
end
return unchanged(tell('refused', record))
