-- Gives each lock its ttl again if its owner still holds it.
-- KEYS: the locks. ARGV: the owner's value of each lock, then the ttl in ms of each lock, or one for all.
-- Answers one text, with a 1 (renewed) or a 0 (not that owner's) for each lock. Never creates a key.
local call = redis.call
local locks = #KEYS
for i = locks + 1, math.max(#ARGV, locks + 1) do
  -- PEXPIRE 0 deletes the key and answers 1.
  if not ((tonumber(ARGV[i]) or 0) >= 1) then
    return redis.error_reply('ERR a ttl is at least 1 ms')
  end
end
local each = #ARGV > locks + 1
-- One call for all of them costs a fifth less. A key of another type counts as one that is gone.
local answers = call('MGET', unpack(KEYS))
for i = 1, locks do
  local mine = answers[i] == ARGV[i]
  answers[i] = mine and call('PEXPIRE', KEYS[i], each and ARGV[locks + i] or ARGV[locks + 1]) == 1 and '1' or '0'
end
return table.concat(answers)
