-- Part of the scripts that write an owner: whoever does mints a fencing token.
-- The greater of the server's microseconds and the last token plus one, as text; nil if none can follow the last one.
local function mint(fence)
  -- Put together as text: a number would be printed and parsed again by every command.
  local now = call('TIME')
  local token = now[2]
  if #token < 6 then
    token = string.sub('00000' .. token, -6)
  end
  token = now[1] .. token
  if call('ZADD', fence, 'GT', 'CH', token, 'last') == 1 then
    return token
  end
  -- Numbers count exactly up to 2^53; past that, adding one would repeat a token.
  local last = tonumber(call('ZSCORE', fence, 'last'))
  if not (last < 9007199254740991) then
    return nil
  end
  token = string.format('%.0f', last + 1)
  call('ZADD', fence, token, 'last')
  return token
end
