-- What the scripts share. It stands in front of each of them, after two constants that the
-- server writes there: STAMP_GAP_US and HISTORY_MAX.
--
-- Every script is one atomic step of one key's record, by the rules of core/src/transition.rs:
-- the names here are the names there, and the conformance suite compares the two.
--
-- KEYS, which all lie in one slot by their hash tag:
--   1 clock     hash: stamped_at, resumed_at
--   2 counts    hash: one field for each counter
--   3 inflight  sorted set: the identities of unresolved records, all with score 0, so that
--               they are listed by name
--   4 expiring  sorted set: the same identities by the end of their retention
--   5 record    hash: head (below), fingerprint, derived_key, past (below), subject, gateway,
--               outcome; the last three are never looked into
-- ARGV[1] is the time, which only tests give; where it is empty it is Redis' own.
--
-- All times are microseconds. Numbers are doubles, exact below 2^53 (the year 2255), and are
-- written with %.0f alone: Lua's own way of writing them loses digits.
--
-- A reply is {now, what, ...}.

-- The version, the state's letter, and the numbers that most steps need, in one field, since
-- each field that is read costs.
local HEAD = '1 %s %s %.0f %.0f %.0f %.0f %.0f %.0f %s %.0f %.0f %.0f %.0f %s %s %s %s'
local HEAD_PATTERN = '^1 (%a) (%x+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([rh]) (%d+) (%d+) (%d+)'
  .. ' (%d+) (%S+) (%S+) (%S+) (%S+)$'

-- How long a record stays after its retention, in milliseconds, for a sweep to find. Only a
-- safety net: whether it has expired is judged by what is in it. An unresolved one is counted
-- by the sweep, which may have to wait for a server.
local GRACE_OPEN_MS = 7 * 24 * 3600 * 1000
local GRACE_COMPLETED_MS = 60 * 1000

local now, resumed_at

local function int(n) return string.format('%.0f', n) end

-- The clock never goes back, whatever Redis' own does.
local function read_clock()
  if ARGV[1] == '' then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  else
    now = tonumber(ARGV[1])
  end
  local stamps = redis.call('HMGET', KEYS[1], 'stamped_at', 'resumed_at')
  local stamped_at = tonumber(stamps[1] or '0')
  resumed_at = tonumber(stamps[2] or '0')
  if now < stamped_at then now = stamped_at end
  return stamped_at
end

-- Says that the store is being served, and finds out whether it was not. This is a script's
-- first write: where Redis has no memory left it fails here, with nothing half done.
local function stamp()
  local stamped_at = read_clock()
  if stamped_at > 0 and now - stamped_at > STAMP_GAP_US then
    resumed_at = now
    redis.call('HSET', KEYS[1], 'stamped_at', int(now), 'resumed_at', int(now))
  elseif now > stamped_at then
    redis.call('HSET', KEYS[1], 'stamped_at', int(now))
  end
end

local function count(counter) redis.call('HINCRBY', KEYS[2], counter, 1) end

local function unreadable(why) return {now, 'unreadable', why} end

local function expires_at(record)
  if record.state == 'p' then
    local ttl = record.on_ambiguous == 'h' and record.held_ttl or record.ttl
    return record.lease_until + ttl
  end
  return record.changed_at + (record.state == 'h' and record.held_ttl or record.ttl)
end

-- The four words at the end of the head, by state:
--   p in progress  claimed_at lease_until - -
--   c completed    by (an execution, or "operator") - - -
--   r retryable    last_status (0: none) not_before unknown released
--   h held         last_status (0: none) lost_lease - -
local function parse(head)
  local state, execution, fence, attempt, sent, revision, created_at, changed_at, on_ambiguous,
    attempts_max, lease, ttl, held_ttl, a, b, c, d = string.match(head, HEAD_PATTERN)
  if not state then return nil, 'its head is of another version, or corrupt' end
  local record = {
    state = state, execution = execution, fence = tonumber(fence), attempt = tonumber(attempt),
    sent = tonumber(sent), revision = tonumber(revision), created_at = tonumber(created_at),
    changed_at = tonumber(changed_at), on_ambiguous = on_ambiguous,
    attempts_max = tonumber(attempts_max), lease = tonumber(lease), ttl = tonumber(ttl),
    held_ttl = tonumber(held_ttl), open = true,
  }
  if state == 'p' then
    record.claimed_at, record.lease_until = tonumber(a), tonumber(b)
    if not record.claimed_at or not record.lease_until or record.lease_until == 0 then
      return nil, 'it is in progress without a lease'
    end
  elseif state == 'c' then
    record.by, record.open = a, false
  elseif state == 'r' then
    record.last_status, record.not_before = tonumber(a), tonumber(b)
    record.unknown, record.released = c == '1', d == '1'
    if not record.last_status or not record.not_before then
      return nil, 'it is retryable from no time on'
    end
  elseif state == 'h' then
    record.last_status, record.lost_lease = tonumber(a), b == '1'
    if not record.last_status then return nil, 'it is held for no reason' end
  else
    return nil, 'its state is unknown'
  end
  return record
end

local function drop(record)
  redis.call('DEL', KEYS[5])
  if record.open then
    local identity = string.sub(KEYS[5], -64)
    redis.call('ZREM', KEYS[3], identity)
    redis.call('ZREM', KEYS[4], identity)
  end
end

local function expire(record)
  drop(record)
  if record.open then count('expired_unresolved') end
end

-- The record, nil where it is absent or has just expired; or nil and why it is unreadable.
local function load()
  local got = redis.pcall('HMGET', KEYS[5], 'head', 'fingerprint', 'derived_key', 'past')
  if got.err then return nil, got.err end
  if not got[1] and not got[2] then return nil end
  if not got[1] or not got[2] or not got[3] then return nil, 'it is not whole' end
  local record, why = parse(got[1])
  if not record then return nil, why end
  if now > expires_at(record) then
    expire(record)
    return nil
  end
  record.fingerprint, record.derived_key, record.past = got[2], got[3], got[4] or ''
  return record
end

-- Writes the record, and further fields of it, and brings the indexes up to date.
local function save(record, ...)
  local a, b, c, d = '-', '-', '-', '-'
  local state = record.state
  if state == 'p' then
    a, b = int(record.claimed_at), int(record.lease_until)
  elseif state == 'c' then
    a = record.by
  elseif state == 'r' then
    a, b = int(record.last_status), int(record.not_before)
    c, d = record.unknown and '1' or '0', record.released and '1' or '0'
  else
    a, b = int(record.last_status), record.lost_lease and '1' or '0'
  end
  local head = string.format(HEAD, state, record.execution, record.fence, record.attempt,
    record.sent, record.revision, record.created_at, record.changed_at, record.on_ambiguous,
    record.attempts_max, record.lease, record.ttl, record.held_ttl, a, b, c, d)
  if record.past_changed then
    redis.call('HSET', KEYS[5], 'head', head, 'past', record.past, ...)
  else
    redis.call('HSET', KEYS[5], 'head', head, ...)
  end
  local expires, grace = expires_at(record), GRACE_COMPLETED_MS
  local identity = string.sub(KEYS[5], -64)
  if state ~= 'c' then
    grace = GRACE_OPEN_MS
    if not record.open then redis.call('ZADD', KEYS[3], '0', identity) end
    redis.call('ZADD', KEYS[4], int(expires), identity)
  elseif record.open then
    redis.call('ZREM', KEYS[3], identity)
    redis.call('ZREM', KEYS[4], identity)
  end
  local left = math.max(expires - now, 0)
  redis.call('PEXPIRE', KEYS[5], int(math.ceil(left / 1000) + grace))
end

-- Enters a state: every transition but a renewal goes through here.
local function enter(record, state)
  record.state = state
  record.revision = record.revision + 1
  record.changed_at = now
end

local function lease_left(record)
  if record.state ~= 'p' then return 0 end
  return math.max(record.lease_until - now, resumed_at + record.lease - now, 0)
end

local function owns(record, execution, fence)
  return record.execution == execution and (fence == '' or tonumber(fence) == record.fence)
end

-- Past executions, oldest first, each as "execution:fence:suspected;".

local function is_past(record, execution)
  return string.find(record.past, execution, 1, true) ~= nil
end

local function push(record, execution, fence, suspected)
  local _, length = string.gsub(record.past, ';', ';')
  if length >= HISTORY_MAX then
    record.past = string.sub(record.past, string.find(record.past, ';', 1, true) + 1)
  end
  record.past = record.past .. execution .. ':' .. int(fence) .. ':' .. suspected .. ';'
  record.past_changed = true
end

local function remember(record)
  if not is_past(record, record.execution) then
    push(record, record.execution, record.fence, '0')
  end
end

-- Counts an execution as a suspected duplicate. True the first time.
local function suspect(record, execution, fence)
  local at = string.find(record.past, execution, 1, true)
  if at then
    local _, flag = string.find(record.past, '^%x+:%d+:', at)
    if string.sub(record.past, flag + 1, flag + 1) == '1' then return false end
    record.past = string.sub(record.past, 1, flag) .. '1' .. string.sub(record.past, flag + 2)
    record.past_changed = true
  else
    push(record, execution, fence, '1')
  end
  count('suspected_duplicates')
  return true
end

-- Replies.

local function claimed(record)
  return {
    now, 'claimed', record.fence, record.attempt, record.sent, lease_left(record),
    record.fingerprint, record.derived_key, record.on_ambiguous, record.attempts_max,
    record.lease, record.ttl, record.held_ttl,
  }
end

-- The verdict that anybody but the owner gets, as part of a reply that is `what`.
local function tell(what, record)
  if record.state == 'p' then
    local age = math.max(now - record.claimed_at, 0)
    return {now, what, 'in_progress', age, lease_left(record)}
  elseif record.state == 'c' then
    local outcome = redis.call('HGET', KEYS[5], 'outcome')
    if not outcome then return unreadable('it is completed without an outcome') end
    return {now, what, 'completed', outcome}
  elseif record.state == 'r' then
    return {now, what, 'retry_later', math.max(record.not_before - now, 0)}
  end
  return {now, what, 'held', record.last_status}
end

-- What an execution is told that does not count any more: the outcome of its own request only.
local function fenced(record, fingerprint)
  if fingerprint ~= record.fingerprint then return {now, 'fenced', 'mismatch'} end
  return tell('fenced', record)
end
