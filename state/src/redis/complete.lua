-- Complete: brings the final outcome. (core/src/transition/settle.rs)
--
-- ARGV  see restore.lua  16 outcome
-- Returns void; settled; fenced with a verdict; or unreadable.

stamp()
if now > tonumber(ARGV[2]) then return {now, 'void'} end
local record, why = load()
if why then return unreadable(why) end

local execution = ARGV[3]
if not record then
  record = restored('c')
  record.by = execution
  save(record, 'fingerprint', ARGV[7], 'derived_key', ARGV[8], 'subject', ARGV[14],
    'outcome', ARGV[16])
  return {now, 'settled'}
end
-- Where these differ, the key was forgotten and belongs to another request now.
if ARGV[7] ~= record.fingerprint then return fenced(record, ARGV[7]) end
if record.state == 'c' and record.by == execution then return {now, 'settled'} end

local own = owns(record, execution, ARGV[4])
local keep = record.state == 'r' or record.state == 'h' or (record.state == 'p' and own)
local suspected = not own and suspect(record, execution, tonumber(ARGV[4]))
if keep then
  record.by = execution
  enter(record, 'c')
  save(record, 'outcome', ARGV[16])
  return {now, 'settled'}
end
if suspected then save(record) end
return fenced(record, ARGV[7])
