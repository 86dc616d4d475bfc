-- ARGV[4]: a command whose first argument is the data's key. ARGV[5..]: its further arguments.
-- Answers {'done', its answer}, or its error: then the writer is registered and has not written.
raise('lockrt:written', ARGV[1])
-- Lua passes on some 8,000 arguments in one call; with more it fails before the command has begun.
local called, answer = pcall(function() return redis.pcall(ARGV[4], KEYS[1], unpack(ARGV, 5)) end)
if not called then
  answer = redis.error_reply('ERR the command cannot be called, write in smaller pieces: ' .. tostring(answer))
end
if type(answer) == 'table' and answer.err then
  redis.call('HSET', KEYS[2], 'lockrt:written', found[2] or '0')
  return answer
end
return {'done', answer}
