-- Compares a writer's fencing token with the stored one. What follows this part is one step with it.
-- KEYS[1]: the data. KEYS[2]: the hash with the stored token; the same key if the data are a hash.
-- ARGV[1]: the writer's token, in decimal digits. ARGV[2]: 'once' for one write per grant, else 'write'.
-- ARGV[3]: for how many ms the token is kept, 'always', or 'data' for as long as KEYS[1].
-- Answers {'stale', stored token} or {'repeated', stored token} for a writer that may not pass, {'unusable'}
-- where a token is none, {'type'} where KEYS[2] is no hash; nothing was written then.
local function digits(token)
  -- Compared as texts of one length: a Lua number is exact below 2^53 only, and a token has 64 bits.
  if type(token) == 'string' and #token <= 20 and string.match(token, '^%d+$') then
    return string.rep('0', 20 - #token) .. token
  end
end
local keep = ARGV[3]
if not (keep == 'always' or keep == 'data' or (tonumber(keep) or 0) >= 1) then
  -- PEXPIRE 0 would delete the token, and let everybody in.
  return redis.error_reply('ERR a token is kept for at least 1 ms')
end
local found = redis.pcall('HMGET', KEYS[2], 'lockrt:token', 'lockrt:written')
if found.err then
  return string.sub(found.err, 1, 9) == 'WRONGTYPE' and {'type'} or found
end
local offered, stored, written = digits(ARGV[1]), digits(found[1] or '0'), digits(found[2] or '0')
if not (offered and stored and written) then
  return {'unusable'}
end
if offered < stored then
  return {'stale', found[1]}
end
if ARGV[2] == 'once' and offered == written then
  return {'repeated', found[1]}
end
-- Raised before the write, so that a failure here fails before it. An older token is refused from now on.
local function raise(...)
  redis.call('HSET', KEYS[2], 'lockrt:token', ARGV[1], ...)
  if keep == 'always' then
    redis.call('PERSIST', KEYS[2])
  elseif keep ~= 'data' then
    redis.call('PEXPIRE', KEYS[2], keep)
  end
end
