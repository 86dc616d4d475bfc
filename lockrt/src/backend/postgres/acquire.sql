-- One attempt. $1: the key. $2: the owner. $3: the ttl in ms. $4: whether the owner waits.
-- Answers one row: whether the owner has the lock, its token, and for how many ms the lease still lasts.
WITH held AS (
  -- A refusal writes nothing, unless the first who waits has to leave word of it.
  SELECT expires_at FROM {schema}.lockrt_locks
  WHERE key = $1 AND owner <> $2 AND expires_at > clock_timestamp() AND (wanted OR NOT $4)
), written AS (
  INSERT INTO {schema}.lockrt_locks AS l (key, owner, fence, expires_at, wanted)
  SELECT $1, $2,
    greatest((SELECT fence FROM {schema}.lockrt_floor) + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
    clock_timestamp() + $3 * interval '1 millisecond', false
  WHERE NOT EXISTS (SELECT FROM held)
  -- The row as it is by now, locked: it may have been written after this statement had begun. So the clock
  -- is read here, once for all columns.
  ON CONFLICT (key) DO UPDATE SET (owner, fence, expires_at, wanted) = (
    SELECT CASE WHEN free THEN $2 ELSE l.owner END,
      CASE WHEN free THEN greatest(l.fence + 1, (extract(epoch FROM now) * 1000000)::bigint) ELSE l.fence END,
      CASE WHEN free THEN now + $3 * interval '1 millisecond' ELSE l.expires_at END,
      NOT free AND (l.wanted OR $4)
    FROM (
      SELECT now, l.owner = $2 OR l.expires_at <= now AS free
      FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock OFFSET 0
    ) AS decided
  )
  RETURNING owner, fence, expires_at
)
SELECT owner = $2, fence, ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint FROM written
UNION ALL
SELECT false, 0, ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint FROM held
