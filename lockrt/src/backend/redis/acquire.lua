-- One attempt to take a lock.
-- KEYS: the lock, the fence of its slot. ARGV: the owner's value, the ttl in ms.
-- Answers the fencing token as text, or as a number the ms the holder has left (-1: no end).
-- The lock is written last, so an error raised on the way means that nothing was taken.
local call = redis.call
local lock, fence = KEYS[1], KEYS[2]
local owner, ttl = ARGV[1], ARGV[2]
-- PX 0 would be refused by the server, but a later PEXPIRE 0 would delete the key.
if not ((tonumber(ttl) or 0) >= 1) then
  return redis.error_reply('ERR a ttl is at least 1 ms')
end
local holder = call('GET', lock)
if holder and holder ~= owner then
  return call('PTTL', lock)
end
-- The server's microseconds, put together as text: a number would be printed and parsed again by every command.
local now = call('TIME')
local token = now[2]
if #token < 6 then
  token = string.sub('00000' .. token, -6)
end
token = now[1] .. token
if call('ZADD', fence, 'GT', 'CH', token, 'last') == 0 then
  -- The last token is ahead of the clock. Numbers count exactly up to 2^53; past that, adding one would repeat a token.
  local last = tonumber(call('ZSCORE', fence, 'last'))
  if not (last < 9007199254740991) then
    return redis.error_reply('ERR the fence key of this slot holds no usable number')
  end
  token = string.format('%.0f', last + 1)
  call('ZADD', fence, token, 'last')
end
call('SET', lock, owner, 'PX', ttl)
return token
