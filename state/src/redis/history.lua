-- For the scripts that remember executions (Claim, Complete).
--
-- `past` is what the record remembers: past executions, oldest first, each as
-- "execution:fence:suspected;".

local function is_past(record, execution)
  return string.find(record.past, execution, 1, true) ~= nil
end

local function push(record, execution, fence, suspected)
  local _, length = string.gsub(record.past, ';', ';')
  if length >= HISTORY_MAX then
    record.past = string.sub(record.past, string.find(record.past, ';', 1, true) + 1)
  end
  record.past = record.past .. execution .. ':' .. fence .. ':' .. suspected .. ';'
  record.past_changed = true
end

local function remember(record)
  if not is_past(record, record.execution) then
    push(record, record.execution, record.fence, '0')
  end
end

-- Counts an execution as a suspected duplicate. True the first time.
local function suspect(record, execution, fence)
  local at = string.find(record.past, execution, 1, true)
  if at then
    local _, flag = string.find(record.past, '^%x+:%d+:', at)
    if string.sub(record.past, flag + 1, flag + 1) == '1' then return false end
    record.past = string.sub(record.past, 1, flag) .. '1' .. string.sub(record.past, flag + 2)
    record.past_changed = true
  else
    push(record, execution, fence, '1')
  end
  count('suspected_duplicates')
  return true
end
