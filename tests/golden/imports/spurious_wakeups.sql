SELECT w.id, w.ts, s.ts, s.state, w.irq_context, t.tid, k.tid FROM spurious_sched_wakeup w
JOIN thread_state s ON s.id = w.thread_state_id JOIN thread t ON t.utid = w.utid
JOIN thread k ON k.utid = w.waker_utid ORDER BY w.id;

SELECT ts, dur, state, tid FROM thread_state JOIN thread USING (utid) ORDER BY ts, tid;
