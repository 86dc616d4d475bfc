-- Answers {'done', what the caller's part returned} or {'failed', why}: it may have done half by then.
raise('lockrt:written', ARGV[1])
local keys, args = {KEYS[1]}, {}
for i = 3, #KEYS do keys[i - 1] = KEYS[i] end
for i = 4, #ARGV do args[i - 3] = ARGV[i] end
local ran, answer = pcall(write, keys, args)
local failure = type(answer) == 'table' and answer.err or not ran and tostring(answer)
if failure then
  return {'failed', failure}
end
return {'done', answer}
