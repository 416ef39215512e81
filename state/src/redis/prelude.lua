-- What the scripts share. It stands in front of each of them, after two constants that the
-- server writes there: STAMP_GAP_US and HISTORY_MAX.
--
-- Every script is one atomic step of one key's record, by the rules of core/src/transition.rs:
-- the names here are the names there, and the conformance suite compares the two.
--
-- KEYS, which all lie in one slot by their hash tag:
--   1 clock     text: when the shard was last stamped
--   2 resumed   text: when it was last found to have resumed
--   3 counts    hash: one field for each counter
--   4 inflight  sorted set: the identities of unresolved records, all with score 0, so that
--               they are listed by name
--   5 expiring  sorted set: the same identities by the end of their retention
--   6 record    hash: head, terms and past (below), created_at, fingerprint, derived_key,
--               subject, gateway, outcome; the last three are never looked into
-- ARGV[1] is the time, which only tests give; where it is empty it is Redis' own.
--
-- What most steps read and write is joined to words in few fields, since each field and each
-- number costs. A record's numbers therefore stay the texts that they were read as: arithmetic
-- takes them as they are, comparison needs tonumber, and what comes out of arithmetic goes
-- through int() before it is put back. All times are microseconds. Numbers are exact below 2^53
-- (the year 2255); Lua's own way of writing them would lose digits, int() does not.
--
-- A reply is {now, what, ...}.

-- The version, the state's letter, execution, fence, attempt, sent, revision, changed_at, and
-- three words by state:
--   p in progress  claimed_at lease_until -
--   c completed    by (an execution, or "operator") - -
--   r retryable    last_status (0: none) not_before flags (two digits: unknown, released)
--   h held         last_status (0: none) lost_lease -
local HEAD = '^1 ([pcrh]) (%x+) (%d+) (%d+) (%d+) (%d+) (%d+) (%w+) (%S+) (%S+)$'

-- on_ambiguous (r: reexecute, h: hold), attempts_max, lease, ttl, held_ttl. Comes like this
-- from the server, and goes back like this.
local TERMS = '^([rh]) (%d+) (%d+) (%d+) (%d+)$'

-- Completed records leave by Redis' own expiry, some time after their retention, since nobody
-- counts them; whether one has expired is judged by what is in it. In milliseconds. Unresolved
-- ones leave by a sweep, which counts them.
local GRACE_MS = 60 * 1000

-- The time, as a number and as text.
local now, now_text

local function int(n) return string.format('%.0f', n) end

local function read_time()
  if ARGV[1] == '' then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  else
    now = tonumber(ARGV[1])
  end
  now_text = int(now)
end

-- The clock never goes back, whatever Redis' own does.
local function not_before(stamped_at)
  if tonumber(stamped_at) > now then now, now_text = tonumber(stamped_at), stamped_at end
end

-- Reads the clock, for scripts that only read.
local function look()
  read_time()
  not_before(redis.call('GET', KEYS[1]) or '0')
end

-- Reads the clock and says that the store is being served, or finds that it was not. This is a
-- script's first write: where Redis has no memory left it fails here, with nothing half done.
local function stamp()
  read_time()
  local stamped_at = redis.call('SET', KEYS[1], now_text, 'GET')
  if not stamped_at then return end
  if now - stamped_at > STAMP_GAP_US then redis.call('SET', KEYS[2], now_text) end
  if now < tonumber(stamped_at) then
    not_before(stamped_at)
    redis.call('SET', KEYS[1], stamped_at)
  end
end

local function count(counter) redis.call('HINCRBY', KEYS[3], counter, 1) end

local function unreadable(why) return {now, 'unreadable', why} end

-- Gives the record terms. False where they are none.
local function set_terms(record, terms)
  record.terms = terms
  record.on_ambiguous, record.attempts_max, record.lease, record.ttl, record.held_ttl =
    string.match(terms, TERMS)
  return record.held_ttl ~= nil
end

local function expires_at(record)
  if record.state == 'p' then
    return record.lease_until + (record.on_ambiguous == 'h' and record.held_ttl or record.ttl)
  end
  return record.changed_at + (record.state == 'h' and record.held_ttl or record.ttl)
end

local function parse(head, terms)
  local record = {}
  local a, b, c
  record.state, record.execution, record.fence, record.attempt, record.sent, record.revision,
    record.changed_at, a, b, c = string.match(head, HEAD)
  local state = record.state
  if not state then return nil, 'its head is of another version, or corrupt' end
  if not set_terms(record, terms) then return nil, 'its terms are corrupt' end
  record.open = state ~= 'c'
  if state == 'p' then
    record.claimed_at, record.lease_until = a, b
    if not tonumber(a) or (tonumber(b) or 0) == 0 then
      return nil, 'it is in progress without a lease'
    end
  elseif state == 'c' then
    record.by = a
  elseif state == 'r' then
    record.last_status, record.not_before = a, b
    record.unknown, record.released = string.sub(c, 1, 1) == '1', string.sub(c, 2, 2) == '1'
    if not tonumber(b) then return nil, 'it is retryable from no time on' end
  else
    record.last_status, record.lost_lease = a, b == '1'
  end
  return record
end

local function drop(record)
  redis.call('DEL', KEYS[6])
  if record.open then
    local identity = string.sub(KEYS[6], -64)
    redis.call('ZREM', KEYS[4], identity)
    redis.call('ZREM', KEYS[5], identity)
  end
end

local function expire(record)
  drop(record)
  if record.open then count('expired_unresolved') end
end

-- The record, nil where it is absent or has just expired; or nil and why it is unreadable.
local function load()
  local got = redis.pcall('HMGET', KEYS[6], 'head', 'terms', 'fingerprint', 'derived_key', 'past')
  if got.err then return nil, got.err end
  if not got[1] and not got[3] then return nil end
  if not (got[1] and got[2] and got[3] and got[4]) then return nil, 'it is not whole' end
  local record, why = parse(got[1], got[2])
  if not record then return nil, why end
  if now > expires_at(record) then
    expire(record)
    return nil
  end
  record.fingerprint, record.derived_key, record.past = got[3], got[4], got[5] or ''
  return record
end

-- Writes the record, and further fields of it, and brings the indexes up to date.
local function save(record, ...)
  local state, tail = record.state
  if state == 'p' then
    tail = record.claimed_at .. ' ' .. record.lease_until .. ' -'
  elseif state == 'c' then
    tail = record.by .. ' - -'
  elseif state == 'r' then
    tail = record.last_status .. ' ' .. record.not_before .. (record.unknown and ' 1' or ' 0')
      .. (record.released and '1' or '0')
  else
    tail = record.last_status .. (record.lost_lease and ' 1 -' or ' 0 -')
  end
  redis.call('HSET', KEYS[6], 'head', '1 ' .. state .. ' ' .. record.execution .. ' '
    .. record.fence .. ' ' .. record.attempt .. ' ' .. record.sent .. ' ' .. record.revision .. ' '
    .. record.changed_at .. ' ' .. tail, ...)
  if record.past_changed then redis.call('HSET', KEYS[6], 'past', record.past) end
  local identity, expires = string.sub(KEYS[6], -64), expires_at(record)
  if state ~= 'c' then
    if not record.open then redis.call('ZADD', KEYS[4], '0', identity) end
    redis.call('ZADD', KEYS[5], int(expires), identity)
    return
  end
  if record.open then
    redis.call('ZREM', KEYS[4], identity)
    redis.call('ZREM', KEYS[5], identity)
  end
  redis.call('PEXPIRE', KEYS[6], int(math.ceil(math.max(expires - now, 0) / 1000) + GRACE_MS))
end

-- Enters a state: every transition but a renewal goes through here.
local function enter(record, state)
  record.state = state
  record.revision = int(record.revision + 1)
  record.changed_at = now_text
end

-- Begins a lease, as long as the record's terms say.
local function begin_lease(record) record.lease_until = int(now + record.lease) end

local function lease_left(record)
  if record.state ~= 'p' then return 0 end
  -- An outage is not a lost lease.
  local resumed_at = redis.call('GET', KEYS[2]) or '0'
  return math.max(record.lease_until - now, resumed_at + record.lease - now, 0)
end

-- The verdict that anybody but the owner gets, as part of a reply that is `what`.
local function tell(what, record)
  if record.state == 'p' then
    local age = math.max(now - record.claimed_at, 0)
    return {now, what, 'in_progress', age, lease_left(record)}
  elseif record.state == 'c' then
    local outcome = redis.call('HGET', KEYS[6], 'outcome')
    if not outcome then return unreadable('it is completed without an outcome') end
    return {now, what, 'completed', outcome}
  elseif record.state == 'r' then
    return {now, what, 'retry_later', math.max(record.not_before - now, 0)}
  end
  return {now, what, 'held', record.last_status}
end
