-- Deletes what belongs to no lease any more, and keeps the greatest of its tokens for the keys that come
-- back. Answers a row with how many there were, unless it is not time yet or another client is at it.
-- What it waits for could hold up locks, behind a pooler for as long as the role's own settings let it.
SET LOCAL lock_timeout = 50;
SET LOCAL statement_timeout = 1000;
WITH turn AS (
  SELECT FROM {schema}.lockrt_floor
  WHERE swept_at < clock_timestamp() - interval '1 second' OR swept_at > clock_timestamp()
  FOR UPDATE SKIP LOCKED
), idle AS (
  SELECT key FROM {schema}.lockrt_locks
  WHERE EXISTS (SELECT FROM turn) AND expires_at < clock_timestamp() - interval '1 second'
    -- A token that is ahead of the clock stays where it is.
    AND fence < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  LIMIT 10000
  FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM {schema}.lockrt_locks AS l USING idle
  WHERE l.key = idle.key AND l.expires_at < clock_timestamp() - interval '1 second'
  RETURNING l.fence
)
UPDATE {schema}.lockrt_floor
SET swept_at = clock_timestamp(), fence = greatest(fence, (SELECT max(gone.fence) FROM gone))
WHERE EXISTS (SELECT FROM turn)
RETURNING (SELECT count(*) FROM gone)
