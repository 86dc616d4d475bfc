-- Gives each lock its ttl again if its owner still holds it.
-- KEYS: the locks. ARGV: for each lock the owner's value and the ttl in ms.
-- Answers 1 (renewed) or 0 (not that owner's) for each lock. Never creates a key.
for i = 1, #KEYS do
  local ttl = tonumber(ARGV[2 * i])
  -- PEXPIRE 0 deletes the key and answers 1.
  if not (ttl and ttl >= 1) then
    return redis.error_reply('ERR a ttl is at least 1 ms')
  end
end
local answers = {}
for i, lock in ipairs(KEYS) do
  answers[i] = 0
  -- One key of another type must not fail the rest of the batch; its owner has lost it anyway.
  if redis.pcall('GET', lock) == ARGV[2 * i - 1] then
    answers[i] = redis.call('PEXPIRE', lock, ARGV[2 * i])
  end
end
return answers
