-- Renewals. $1: the keys. $2: their owners. $3: their ttls in ms.
-- Answers a row for each, in their order: whether it was extended, or null if somebody has locked its row.
WITH claims AS (
  SELECT * FROM unnest($1, $2, $3) WITH ORDINALITY AS claim (key, owner, ttl_ms, place)
), held AS (
  SELECT key, owner FROM {schema}.lockrt_locks
  WHERE (key, owner) IN (SELECT key, owner FROM claims) AND expires_at > clock_timestamp()
), free AS (
  -- One row that a transaction keeps locked would hold up all others.
  SELECT key, owner FROM {schema}.lockrt_locks
  WHERE (key, owner) IN (SELECT key, owner FROM claims) AND expires_at > clock_timestamp()
  FOR UPDATE SKIP LOCKED
), renewed AS (
  UPDATE {schema}.lockrt_locks AS l SET expires_at = clock_timestamp() + claims.ttl_ms * interval '1 millisecond'
  FROM claims JOIN free USING (key, owner)
  WHERE l.key = claims.key AND l.owner = claims.owner AND l.expires_at > clock_timestamp()
  RETURNING l.key, l.owner
)
SELECT CASE WHEN renewed.key IS NOT NULL THEN true WHEN held.key IS NULL THEN false END
FROM claims LEFT JOIN renewed USING (key, owner) LEFT JOIN held USING (key, owner) ORDER BY claims.place
