-- One attempt to take a lock.
-- KEYS: the lock, the fence of its slot, and for a claim that waits the queue.
-- ARGV: the owner's value, the ttl in ms, and for a claim that waits its place in the queue, then 1 if it may have that by now.
-- Answers the fencing token as text. If the lock is held: the ms that the holder has left (-1: no end), and whether the
-- claim will be called from its place (1) or has to look by itself (0).
-- The lock is written last, so an error raised on the way means that nothing was taken.
local call = redis.call
local lock, fence, owner, ttl, place = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
-- PX 0 would be refused by the server, but a later PEXPIRE 0 would delete the key.
if not ((tonumber(ttl) or 0) >= 1) then
  return redis.error_reply('ERR a ttl is at least 1 ms')
end
local holder = call('GET', lock)
-- A `?` behind an owner's value: it was offered the lock and has not taken it yet.
if holder and holder ~= owner and holder ~= owner .. '?' then
  local left = call('PTTL', lock)
  if not place then
    return { left, 0 }
  end
  local queue = KEYS[3]
  -- An order by time would let others pass when the clock is set back.
  local last = redis.pcall('ZRANGE', queue, '-1', '-1', 'WITHSCORES')
  if last.err or type(redis.pcall('ZADD', queue, 'NX', (last[2] or 0) + 1, place)) == 'table' then
    return { left, 0 }
  end
  -- The first in the queue look when an offer ends, those behind them each a little later: in a line that takes longer
  -- than an offer all would look once per offer, and if the first are dead, the next one should not wait for long.
  if left >= 0 and string.sub(holder, -1) == '?' then
    left = left + 25 * math.max((tonumber(redis.pcall('ZRANK', queue, place)) or 0) - 7, 0)
  end
  -- A waiter that lives asks again when this lease ends, or when two thirds of its own ttl have passed, whichever
  -- comes first, and gives a silent server up after 3 s. So a queue without a newer look has only dead ones in it.
  local stays = math.min(math.max(left, 0), tonumber(ttl)) + 4000
  if call('PTTL', queue) < stays then
    call('PEXPIRE', queue, stays)
  end
  -- Holders that are not ours will not call anybody.
  local called = left >= 0 and string.find(holder, '^[^#]*#%d+#%x+%??$')
  return { left, called and 1 or 0 }
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
if ARGV[4] then
  redis.pcall('ZREM', KEYS[3], place)
end
call('SET', lock, owner, 'PX', ttl)
return token
