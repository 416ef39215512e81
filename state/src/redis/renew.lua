-- Renew: keeps the lease of a running execution. (core/src/transition/settle.rs)
--
-- ARGV  see restore.lua
-- Returns void; renewed with the lease; fenced with a verdict; or unreadable.

stamp()
if now > tonumber(ARGV[2]) then return {now, 'void'} end
local record, why = load()
if why then return unreadable(why) end

if not record then
  record = restored('p')
  record.claimed_at, record.lease_until = now, now + record.lease
  save(record, 'fingerprint', ARGV[7], 'derived_key', ARGV[8], 'subject', ARGV[14],
    'gateway', ARGV[15])
  return {now, 'renewed', record.lease}
end
if not owns(record, ARGV[3], ARGV[4]) then return fenced(record, ARGV[7]) end

if record.state == 'p' then
  record.lease_until = now + record.lease
  save(record)
  return {now, 'renewed', record.lease}
elseif record.state == 'h' and record.lost_lease then
  record.claimed_at, record.lease_until = now, now + record.lease
  enter(record, 'p')
  save(record, 'gateway', ARGV[15])
  return {now, 'renewed', record.lease}
end
return fenced(record, ARGV[7])
