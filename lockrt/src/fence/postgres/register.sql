INSERT INTO lockrt_fence AS f (resource, token, written, passed)
VALUES ($1::text, $2::text::numeric, 0, true)
ON CONFLICT (resource) DO UPDATE SET
  token = greatest(f.token, excluded.token),
  passed = f.token <= excluded.token
RETURNING passed, token::text
