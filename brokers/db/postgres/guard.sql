-- What the guard asks now and then: who outstays, one a line.
-- - Sessions in a database that takes none: they were told to end.
-- - Workers that run a tenant's functions, to analyse its indexes or to summarise them.
-- - When no worker is free, all but the last in one database, or the first of all: a tenant may have its tables vacuumed as
--   slowly as it likes.
-- And whether somebody waits until every process of the server has heard of a drop.
WITH worker AS (
  SELECT *, count(*) OVER () >= current_setting('autovacuum_max_workers')::int AS taken,
    row_number() OVER (PARTITION BY datid ORDER BY backend_start DESC) AS place, row_number() OVER (ORDER BY backend_start) AS turn
  FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'),
held AS (SELECT pid FROM worker WHERE taken AND (place > 1 OR turn = 1 AND NOT EXISTS (SELECT FROM worker WHERE place > 1)))
SELECT CASE WHEN a.usename = a.datname THEN 'session' WHEN a.pid IN (SELECT pid FROM held) THEN 'vacuum' ELSE 'worker' END,
  a.pid, a.datname, extract(epoch FROM a.backend_start),
  EXISTS (SELECT FROM pg_stat_activity w WHERE w.wait_event = 'ProcSignalBarrier')
FROM pg_stat_activity a JOIN pg_database d ON d.oid = a.datid
WHERE a.datname ~ '^spc_[0-9a-f]{40}$' AND (a.usename = a.datname AND NOT d.datallowconn
  OR a.backend_type = 'autovacuum worker' AND (a.query LIKE 'autovacuum: BRIN summarize %'
    OR a.pid IN (SELECT pid FROM pg_stat_progress_analyze UNION ALL SELECT pid FROM held)))
