-- Says that the store is being served.
--
-- KEYS  1 clock alone
-- Returns stamped.

stamp()
return {now, 'stamped'}
