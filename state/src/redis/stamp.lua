-- Says that the store is being served.
--
-- KEYS  1 and 2
-- Returns stamped.

stamp()
return {now, 'stamped'}
