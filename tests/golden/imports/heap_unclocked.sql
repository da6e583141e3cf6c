SELECT upid, pid, name FROM process ORDER BY upid;
SELECT name, value FROM stats WHERE value AND name LIKE 'clock_sync_failure%';
