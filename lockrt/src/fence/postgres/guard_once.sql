INSERT INTO lockrt_fence AS f (resource, token, written, passed)
VALUES ($1::text, $2::text::numeric, $2::text::numeric, true)
ON CONFLICT (resource) DO UPDATE SET
  token = greatest(f.token, excluded.token),
  written = CASE WHEN f.token <= excluded.token THEN excluded.written ELSE f.written END,
  passed = f.token <= excluded.token AND f.written <> excluded.written
RETURNING passed, token::text
