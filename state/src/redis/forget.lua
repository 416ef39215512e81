-- Forget: an operator drops a record that needs nobody any more.
-- (core/src/transition/operator.rs)
--
-- ARGV  2 fence seen  3 revision seen
-- Returns operator with its reply, or unreadable.

stamp()
local record, why = load()
if why then return unreadable(why) end
if not record then return {now, 'operator', 'not_found'} end

if record.fence ~= ARGV[2] or record.revision ~= ARGV[3] then
  return {now, 'operator', 'changed'}
end
if record.state == 'p' or record.state == 'h' then return {now, 'operator', 'refused'} end
drop(record)
return {now, 'operator', 'forgotten'}
