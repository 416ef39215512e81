-- Release: an operator lets the next retry execute. (core/src/transition/operator.rs)
--
-- ARGV  2 fence seen  3 revision seen  4 force (1 or 0)
-- Returns operator with its reply, or unreadable.

stamp()
local record, why = load()
if why then return unreadable(why) end
if not record then return {now, 'operator', 'not_found'} end

local state = record.state
if state == 'c' then return {now, 'operator', 'already_completed'} end
if state == 'r' and record.released then return {now, 'operator', 'already_released'} end
if record.fence ~= ARGV[2] or record.revision ~= ARGV[3] then
  return {now, 'operator', 'changed'}
end
if state == 'p' and ARGV[4] ~= '1' and lease_left(record) > 0 then
  return {now, 'operator', 'live'}
end

if state == 'p' then
  record.last_status, record.unknown = '0', true
elseif state == 'h' then
  record.unknown = true
end
record.sent, record.not_before, record.released = '0', '0', true
enter(record, 'r')
save(record)
return {now, 'operator', 'released'}
