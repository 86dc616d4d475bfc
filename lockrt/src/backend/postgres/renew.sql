-- Renewals. $1: the keys. $2: their owners. $3: their ttls in ms.
-- Answers a row for each, in their order: whether it was extended.
WITH claims AS (
  SELECT * FROM unnest($1, $2, $3) WITH ORDINALITY AS claim (key, owner, ttl_ms, place)
), renewed AS (
  UPDATE {schema}.lockrt_locks AS l SET expires_at = clock_timestamp() + claims.ttl_ms * interval '1 millisecond'
  FROM claims
  WHERE l.key = claims.key AND l.owner = claims.owner AND l.expires_at > clock_timestamp()
  RETURNING l.key, l.owner
)
SELECT renewed.key IS NOT NULL FROM claims LEFT JOIN renewed USING (key, owner) ORDER BY claims.place
