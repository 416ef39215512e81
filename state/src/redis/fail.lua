-- Fail: the execution ended without a final outcome. (core/src/transition/settle.rs)
--
-- ARGV  2 void_after  3 execution  4 fence (empty: unknown)  5 fingerprint (empty: unknown)
--       6 kind (never_sent, retryable, ambiguous)  7 status (0: none)  8 retry_after
-- Returns void; gone; settled; fenced with a verdict; or unreadable.

stamp()
if now > tonumber(ARGV[2]) then return {now, 'void'} end
local record, why = load()
if why then return unreadable(why) end
if not record then return {now, 'gone'} end

local fence, kind = ARGV[4], ARGV[6]
local own = owns(record, ARGV[3], fence) and (fence ~= '' or kind == 'never_sent')
if not own or record.state == 'c' then return fenced(record, ARGV[5]) end

local returning = record.state == 'h' and record.lost_lease and kind ~= 'ambiguous'
if record.state ~= 'p' and not returning then return {now, 'settled'} end

record.last_status = ARGV[7]
if kind == 'ambiguous' and record.on_ambiguous == 'h' then
  record.lost_lease = false
  enter(record, 'h')
  save(record)
  count('holds')
  return {now, 'settled'}
end
if kind == 'never_sent' then record.sent = int(math.max(record.sent - 1, 0)) end
record.not_before = int(now + ARGV[8])
record.unknown, record.released = kind == 'ambiguous', false
enter(record, 'r')
save(record)
return {now, 'settled'}
