-- The guard asks this every few seconds for processes that may have to be ended, one a line:
-- - sessions in a database that accepts no connections, which were already told to end;
-- - autovacuum workers that run functions of a tenant, to analyse or summarise its indexes;
-- - when no worker is free, all workers but the newest in one database, or the oldest of all, since a tenant can make the
--   vacuum of its tables as slow as it likes.
-- The last column says whether a process waits until all processes of the server have reacted to a drop.
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
