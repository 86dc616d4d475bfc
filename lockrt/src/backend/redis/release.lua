-- Frees a lock if its owner holds it or was offered it: offers it to the first in the queue who hears that, or deletes it.
-- Of a claim that has nothing of the lock it frees the place in the queue.
-- KEYS: the lock, the queue. ARGV: the owner's value, and for a claim that waits its place.
-- Answers 1 (freed) or 0 (it had nothing).
local call, try = redis.call, redis.pcall
local lock, queue, owner, place = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local holder = call('GET', lock)
if holder ~= owner and holder ~= owner .. '?' then
  if not place or try('ZREM', queue, place) == 1 then
    return place and 1 or 0
  end
  -- Another client of the same process may have taken it.
  for _, other in ipairs(try('ZRANGE', queue, '0', '-1')) do
    if string.sub(other, -#owner - 1) == '|' .. owner then
      return call('ZREM', queue, other)
    end
  end
  return 0
end
if call('EXISTS', queue) == 0 then
  return call('DEL', lock)
end
-- Where the one in this place listens, its owner's value, and for how long it may be offered a lock.
local function read(waiting)
  local offer, channel, name = string.match(waiting or '', '^([1-9]%d*)|([^|]+)|(.+)$')
  return channel, name, offer
end
local waiting = try('ZRANGE', queue, '0', '1')
-- Dead ones cost time, and a script stops everybody else.
local tries = 100
while waiting[1] and tries > 0 do
  tries = tries - 1
  local channel, name, offer = read(waiting[1])
  local heard = 0
  if name and name ~= owner then
    heard = try('PUBLISH', channel, 'offer ' .. offer .. ' ' .. name .. ' ' .. lock)
    if type(heard) ~= 'number' then
      -- This user may not publish. Those who wait look by themselves.
      break
    end
  end
  call('ZREM', queue, waiting[1])
  if heard > 0 then
    -- Not yet a grant, so it needs no token: whoever takes it gets one.
    call('SET', lock, name .. '?', 'PX', offer)
    -- Whoever was offered it may be frozen; the next one then looks when the offer ends.
    channel, name = read(waiting[2])
    if name then
      try('PUBLISH', channel, 'standby ' .. offer .. ' ' .. name)
    end
    return 1
  end
  waiting = try('ZRANGE', queue, '0', '1')
end
return call('DEL', lock)
