-- For the scripts by which an execution speaks of itself (Renew, Complete, Fail).
--
-- The ARGV of Renew and Complete begin with the execution's ticket:
--   2 void_after  3 execution  4 fence  5 attempt  6 sent  7 fingerprint  8 derived key  9 terms
--   10 subject  11 gateway

-- Own means the execution and the fence, where the fence is known.
local function owns(record, execution, fence)
  return record.execution == execution and (fence == '' or fence == record.fence)
end

-- What an execution is told that does not count any more: the outcome of its own request only.
local function fenced(record, fingerprint)
  if fingerprint ~= record.fingerprint then return {now, 'fenced', 'mismatch'} end
  return tell('fenced', record)
end

-- Saves a record made anew from what its execution knows, in a state whose own words are in
-- `record`, and with a further field that the state needs. Its revision is the clock's, above
-- any that was counted: an operator who looked before the record was lost is out of date.
local function restore(record, field, value)
  count('restored')
  record.execution, record.fence, record.attempt, record.sent = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  record.revision, record.changed_at = now_text, now_text
  set_terms(record, ARGV[9])
  if record.state == 'p' then begin_lease(record) end
  save(record, 'terms', ARGV[9], 'created_at', now_text, 'fingerprint', ARGV[7],
    'derived_key', ARGV[8], 'subject', ARGV[10], field, value)
end
