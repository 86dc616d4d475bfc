-- Frees the lock. $1: the key. $2: the owner. $3: what those are told who wait for it.
-- Answers a row if the owner had it. The row of the lock stays for its token, until it is swept.
WITH freed AS (
  UPDATE {schema}.lockrt_locks SET owner = '', expires_at = '-infinity'
  WHERE key = $1 AND owner = $2 AND expires_at > clock_timestamp()
  RETURNING wanted
)
-- Transactions that notify commit one after the other, on the whole server. So only where somebody waits.
SELECT CASE WHEN wanted THEN pg_notify('lockrt', $3) IS NOT NULL END FROM freed
