-- Complete: brings the final outcome. (core/src/transition/settle.rs)
--
-- ARGV  see settle.lua  12 outcome
-- Returns void; settled; fenced with a verdict; or unreadable.

stamp()
if now > tonumber(ARGV[2]) then return {now, 'void'} end
local record, why = load()
if why then return unreadable(why) end

local execution, fence, fingerprint = ARGV[3], ARGV[4], ARGV[7]
if not record then
  restore({state = 'c', by = execution}, 'outcome', ARGV[12])
  return {now, 'settled'}
end
-- Where these differ, the key was forgotten and belongs to another request now.
if fingerprint ~= record.fingerprint then return fenced(record, fingerprint) end
if record.state == 'c' and record.by == execution then return {now, 'settled'} end

local own = owns(record, execution, fence)
local keep = record.state == 'r' or record.state == 'h' or (record.state == 'p' and own)
local suspected = not own and suspect(record, execution, fence)
if keep then
  record.by = execution
  enter(record, 'c')
  save(record, 'outcome', ARGV[12])
  return {now, 'settled'}
end
if suspected then save(record) end
return fenced(record, fingerprint)
