-- Resolve: an operator says what the outcome is. (core/src/transition/operator.rs)
--
-- ARGV  2 fence seen  3 revision seen  4 force (1 or 0)  5 outcome
-- Returns operator with its reply, or unreadable.

stamp()
local record, why = load()
if why then return unreadable(why) end
if not record then return {now, 'operator', 'not_found'} end

if record.state == 'c' then return {now, 'operator', 'already_completed'} end
if record.fence ~= ARGV[2] or record.revision ~= ARGV[3] then
  return {now, 'operator', 'changed'}
end
if record.state == 'p' and ARGV[4] ~= '1' and lease_left(record) > 0 then
  return {now, 'operator', 'live'}
end

record.by = 'operator'
enter(record, 'c')
save(record, 'outcome', ARGV[5])
return {now, 'operator', 'resolved'}
