-- One attempt to take a lock.
-- KEYS: the lock, the fence of its slot. ARGV: the owner's value, the ttl in ms.
-- Answers the fencing token as text, or as a number the ms the holder has left (-1: no end).
-- The lock is written last, so an error raised on the way means that nothing was taken.
local lock, fence = KEYS[1], KEYS[2]
local owner, ttl = ARGV[1], ARGV[2]
-- PX 0 would be refused by the server, but a later PEXPIRE 0 would delete the key.
if not (tonumber(ttl) and tonumber(ttl) >= 1) then
  return redis.error_reply('ERR a ttl is at least 1 ms')
end
local holder = redis.call('GET', lock)
if holder and holder ~= owner then
  return redis.call('PTTL', lock)
end
-- Lua numbers count exactly up to 2^53; past that, adding one would repeat a token.
local last = tonumber(redis.call('GET', fence) or 0)
if not (last and last < 9007199254740991) then
  return redis.error_reply('ERR the fence key of this slot holds no usable number')
end
local now = redis.call('TIME')
local token = math.max(last + 1, now[1] * 1000000 + now[2])
-- tostring() would round to 14 digits.
token = string.format('%016.0f', token)
redis.call('SET', fence, token)
redis.call('SET', lock, owner, 'PX', ttl)
return token
