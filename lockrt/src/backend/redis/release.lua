-- Frees a lock if its owner still holds it, and tells those who wait.
-- KEYS: the lock. ARGV: the owner's value. Answers 1 (freed) or 0 (not that owner's).
local lock = KEYS[1]
if redis.call('GET', lock) ~= ARGV[1] then
  return 0
end
redis.call('DEL', lock)
-- The message is a hint: an owner who may not publish has released all the same.
redis.pcall('PUBLISH', lock .. ':freed', '')
return 1
