SELECT kind, severity, ts, dur, text FROM verdict ORDER BY id;
