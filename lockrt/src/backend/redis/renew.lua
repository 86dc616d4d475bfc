-- Gives each lock its ttl again if its owner still holds it.
-- KEYS: the locks. ARGV: the owner's value of each lock, then the ttl in ms of each lock, or one for all.
-- Answers 1 (renewed) or 0 (not that owner's) for each lock. Never creates a key.
local call, try = redis.call, redis.pcall
local locks = #KEYS
for i = locks + 1, math.max(#ARGV, locks + 1) do
  -- PEXPIRE 0 deletes the key and answers 1.
  if not ((tonumber(ARGV[i]) or 0) >= 1) then
    return redis.error_reply('ERR a ttl is at least 1 ms')
  end
end
local each = #ARGV > locks + 1
local answers = {}
for i = 1, locks do
  local lock = KEYS[i]
  answers[i] = 0
  -- One key of another type must not fail the rest of the batch; its owner has lost it anyway.
  if try('GET', lock) == ARGV[i] then
    answers[i] = call('PEXPIRE', lock, each and ARGV[locks + i] or ARGV[locks + 1])
  end
end
return answers
