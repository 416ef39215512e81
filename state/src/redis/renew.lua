-- Renew: keeps the lease of a running execution. (core/src/transition/settle.rs)
--
-- ARGV  see settle.lua
-- Returns void; renewed with the lease; fenced with a verdict; or unreadable.

stamp()
if now > tonumber(ARGV[2]) then return {now, 'void'} end
local record, why = load()
if why then return unreadable(why) end

if not record then
  record = {state = 'p', claimed_at = now_text}
  restore(record, 'gateway', ARGV[11])
  return {now, 'renewed', record.lease}
end
if not owns(record, ARGV[3], ARGV[4]) then return fenced(record, ARGV[7]) end

if record.state == 'p' then
  begin_lease(record)
  save(record)
  return {now, 'renewed', record.lease}
elseif record.state == 'h' and record.lost_lease then
  record.claimed_at = now_text
  begin_lease(record)
  enter(record, 'p')
  save(record, 'gateway', ARGV[11])
  return {now, 'renewed', record.lease}
end
return fenced(record, ARGV[7])
