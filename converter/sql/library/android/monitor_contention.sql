-- SPDX-License-Identifier: Apache-2.0
--
-- Threads of apps that waited for a lock of Java, and the threads that held the lock. ART has a
-- slice for each wait: monitor contention with owner THREAD (TID) at METHOD(PLACE) waiters=N
-- blocking from METHOD(PLACE).

INCLUDE PERFETTO MODULE android.suspend;

-- The text between two other texts.
CREATE PERFETTO MACRO _contention_part(
  -- Text.
  text Expr,
  -- The text before.
  before Expr,
  -- The text after.
  after Expr
)
RETURNS Expr AS str_split(str_split($text, $before, 1), $after, 0);

-- The method after a text, up to its second bracket.
CREATE PERFETTO MACRO _contention_method(
  -- Text.
  text Expr,
  -- The text before.
  before Expr
)
RETURNS Expr AS
(_contention_part!($text, $before, '(') || '(' || str_split(str_split($text, $before, 1), '(', 1));

-- Name of the thread that held the lock.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_blocking_thread(
  -- Name of the slice.
  slice_name STRING
)
-- Text.
RETURNS STRING AS
SELECT _contention_part!($slice_name, 'with owner ', ' (');

-- Thread id of the thread that held the lock.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_blocking_tid(
  -- Name of the slice.
  slice_name STRING
)
-- Number.
RETURNS LONG AS
SELECT cast_int!(_contention_part!($slice_name, ' (', ')'));

-- Method that held the lock, with its type and arguments.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_blocking_method(
  -- Name of the slice.
  slice_name STRING
)
-- Text.
RETURNS STRING AS
SELECT _contention_method!($slice_name, ') at ');

-- Name of the method that held the lock.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_short_blocking_method(
  -- Name of the slice.
  slice_name STRING
)
-- Text.
RETURNS STRING AS
SELECT _contention_part!(_contention_method!($slice_name, ') at '), ' ', '(');

-- Method that waited, with its type and arguments.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_blocked_method(
  -- Name of the slice.
  slice_name STRING
)
-- Text.
RETURNS STRING AS
SELECT _contention_method!($slice_name, 'blocking from ');

-- Name of the method that waited.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_short_blocked_method(
  -- Name of the slice.
  slice_name STRING
)
-- Text.
RETURNS STRING AS
SELECT _contention_part!(_contention_method!($slice_name, 'blocking from '), ' ', '(');

-- How many threads waited already.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_waiter_count(
  -- Name of the slice.
  slice_name STRING
)
-- Number.
RETURNS LONG AS
SELECT cast_int!(_contention_part!($slice_name, 'waiters=', ' '));

-- Place of the method that held the lock.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_blocking_src(
  -- Name of the slice.
  slice_name STRING
)
-- Text.
RETURNS STRING AS
SELECT str_split(str_split($slice_name, ')(', 1), ')', 0);

-- Place of the method that waited.
CREATE PERFETTO FUNCTION android_extract_android_monitor_contention_blocked_src(
  -- Name of the slice.
  slice_name STRING
)
-- Text.
RETURNS STRING AS
SELECT str_split(str_split($slice_name, ')(', 2), ')', 0);

-- Slices of waits.
CREATE PERFETTO TABLE _contention_slice AS
SELECT id, track_id FROM slice WHERE name GLOB 'monitor contention*';

-- Complete waits: waits without slices inside, or with only the slice of the lock itself.
CREATE PERFETTO TABLE _valid_android_monitor_contention AS
SELECT w.id
FROM _contention_slice w
LEFT JOIN slice inside ON inside.track_id = w.track_id AND inside.parent_id = w.id
LEFT JOIN slice innermost
  ON innermost.track_id = w.track_id AND innermost.parent_id = inside.id
WHERE innermost.name IS NULL AND ifnull(inside.name GLOB 'Lock contention*', 1)
GROUP BY w.id;

-- The waits for locks of Java. A wait that did not end in the trace is left out, and so is one
-- whose slice does not name both methods.
CREATE PERFETTO TABLE android_monitor_contention(
  -- Method that held the lock: with its type and arguments.
  blocking_method STRING,
  -- Method that waited: with its type and arguments.
  blocked_method STRING,
  -- Method that held the lock: the name alone.
  short_blocking_method STRING,
  -- Method that waited: the name alone.
  short_blocked_method STRING,
  -- Place of blocking_method, as Shelf.java:12.
  blocking_src STRING,
  -- Place of blocked_method.
  blocked_src STRING,
  -- Threads that waited already.
  waiter_count LONG,
  -- Thread that waited.
  blocked_utid JOINID(thread.id),
  -- Name of the thread that waited.
  blocked_thread_name STRING,
  -- Thread that held the lock; NULL: not known (before Android 14).
  blocking_utid JOINID(thread.id),
  -- Name of the thread that held the lock, as the slice has it.
  blocking_thread_name STRING,
  -- Thread id of this thread, as the slice has it.
  blocking_tid LONG,
  -- Process.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING,
  -- Slice of the wait.
  id LONG,
  -- Start of the wait (ns).
  ts TIMESTAMP,
  -- Duration of the wait (ns).
  dur DURATION,
  -- Duration of the wait without the time in which the device was suspended (ns).
  monotonic_dur DURATION,
  -- Track of the slice.
  track_id JOINID(track.id),
  -- 1: the main thread of the process waited.
  is_blocked_thread_main LONG,
  -- Thread id of the thread that waited.
  blocked_thread_tid LONG,
  -- 1: the main thread of the process held the lock.
  is_blocking_thread_main LONG,
  -- Thread id of the thread that held the lock.
  blocking_thread_tid LONG,
  -- Slice of the binder call that the thread answered meanwhile; NULL: none.
  binder_reply_id LONG,
  -- Start of this slice (ns).
  binder_reply_ts TIMESTAMP,
  -- Thread id of this slice.
  binder_reply_tid LONG,
  -- Process id.
  pid LONG,
  -- Name of the lock, if slices NAME_lock_acquire and NAME_lock_held are around.
  lock_name STRING
) AS
WITH
  -- The slices before and after each wait on its track.
  neighbour AS MATERIALIZED (
    SELECT id, lag(name) OVER w AS before, lead(name) OVER w AS after,
      lead(name, 2) OVER w AS second
    FROM slice
    WHERE track_id IN (SELECT track_id FROM _contention_slice
                       WHERE id IN (SELECT id FROM _valid_android_monitor_contention))
    WINDOW w AS (PARTITION BY track_id ORDER BY ts)
  ),
  named AS (
    SELECT n.id, replace(n.before, '_lock_acquire', '') AS lock_name,
      iif(n.after GLOB '*_lock_held', n.after, iif(n.after GLOB 'Lock contention*', n.second, ''))
        AS held
    FROM neighbour n JOIN _valid_android_monitor_contention v ON v.id = n.id
    WHERE n.before GLOB '*_lock_acquire'
  ),
  found AS (
    SELECT s.id, s.ts, s.dur, s.track_id, s.name, h.utid AS blocked_utid, h.name AS thread_name,
      h.tid, h.upid, h.is_main_thread, p.name AS process_name, p.pid,
      android_extract_android_monitor_contention_blocking_tid(s.name) AS blocking_tid,
      android_extract_android_monitor_contention_short_blocking_method(s.name)
        AS short_blocking_method,
      android_extract_android_monitor_contention_short_blocked_method(s.name)
        AS short_blocked_method
    FROM _valid_android_monitor_contention v
    CROSS JOIN slice s ON s.id = v.id
    CROSS JOIN thread_track t ON t.id = s.track_id
    LEFT JOIN thread h ON h.utid = t.utid
    LEFT JOIN process p ON p.upid = h.upid
    WHERE s.dur != -1
  )
SELECT
  android_extract_android_monitor_contention_blocking_method(f.name) AS blocking_method,
  android_extract_android_monitor_contention_blocked_method(f.name) AS blocked_method,
  f.short_blocking_method, f.short_blocked_method,
  android_extract_android_monitor_contention_blocking_src(f.name) AS blocking_src,
  android_extract_android_monitor_contention_blocked_src(f.name) AS blocked_src,
  android_extract_android_monitor_contention_waiter_count(f.name) AS waiter_count,
  f.blocked_utid, f.thread_name AS blocked_thread_name, o.utid AS blocking_utid,
  android_extract_android_monitor_contention_blocking_thread(f.name) AS blocking_thread_name,
  f.blocking_tid, f.upid, f.process_name, f.id, f.ts, f.dur,
  _extract_duration_without_suspend(f.ts, f.dur) AS monotonic_dur, f.track_id,
  f.is_main_thread AS is_blocked_thread_main, f.tid AS blocked_thread_tid,
  o.is_main_thread AS is_blocking_thread_main, o.tid AS blocking_thread_tid,
  b.id AS binder_reply_id, b.ts AS binder_reply_ts, b_thread.tid AS binder_reply_tid, f.pid,
  iif(n.held GLOB '*_lock_held' AND replace(n.held, '_lock_held', '') = n.lock_name, n.lock_name,
      NULL) AS lock_name
FROM found f
LEFT JOIN ancestor_slice(f.id) b ON b.name = 'binder reply'
LEFT JOIN thread_track b_track ON b_track.id = b.track_id
LEFT JOIN thread b_thread ON b_thread.utid = b_track.utid
LEFT JOIN thread o ON o.tid = f.blocking_tid AND o.upid = f.upid
LEFT JOIN named n ON n.id = f.id
WHERE f.short_blocking_method IS NOT NULL AND f.short_blocked_method IS NOT NULL
GROUP BY f.id;

CREATE PERFETTO INDEX _android_monitor_contention_blocking
ON android_monitor_contention(blocking_utid, ts);

CREATE PERFETTO INDEX _android_monitor_contention_blocked
ON android_monitor_contention(blocked_utid, ts);

-- Waits that began while the owner of the lock also waited: id, parent_id.
CREATE PERFETTO TABLE _children AS
SELECT w.id, around.id AS parent_id
FROM android_monitor_contention w
JOIN android_monitor_contention around
  ON around.blocked_utid = w.blocking_utid AND w.ts BETWEEN around.ts AND around.ts + around.dur
ORDER BY w.id;

CREATE PERFETTO INDEX _children_id ON _children(id);

-- The first wait that each waiting thread caused: id, child_id.
CREATE PERFETTO TABLE _child_of AS
SELECT parent_id AS id, min(id) AS child_id FROM _children GROUP BY parent_id ORDER BY parent_id;

CREATE PERFETTO INDEX _child_of_id ON _child_of(id);

-- Waits and the waits behind them: a row for each wait and each of its parents.
CREATE PERFETTO TABLE android_monitor_contention_chain(
  -- Wait of the thread that held the lock, for another lock, at the start of this wait; NULL: none.
  parent_id LONG,
  -- Method that held the lock: with its type and arguments.
  blocking_method STRING,
  -- Method that waited: with its type and arguments.
  blocked_method STRING,
  -- Method that held the lock: the name alone.
  short_blocking_method STRING,
  -- Method that waited: the name alone.
  short_blocked_method STRING,
  -- Place of blocking_method, as Shelf.java:12.
  blocking_src STRING,
  -- Place of blocked_method.
  blocked_src STRING,
  -- Threads that waited already.
  waiter_count LONG,
  -- Thread that waited.
  blocked_utid JOINID(thread.id),
  -- Name of the thread that waited.
  blocked_thread_name STRING,
  -- Thread that held the lock; NULL: not known (before Android 14).
  blocking_utid JOINID(thread.id),
  -- Name of the thread that held the lock, as the slice has it.
  blocking_thread_name STRING,
  -- Thread id of this thread, as the slice has it.
  blocking_tid LONG,
  -- Process.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING,
  -- Slice of the wait.
  id LONG,
  -- Start of the wait (ns).
  ts TIMESTAMP,
  -- Duration of the wait (ns).
  dur DURATION,
  -- Duration of the wait without the time in which the device was suspended (ns).
  monotonic_dur DURATION,
  -- Track of the slice.
  track_id JOINID(track.id),
  -- 1: the main thread of the process waited.
  is_blocked_thread_main LONG,
  -- Thread id of the thread that waited.
  blocked_thread_tid LONG,
  -- 1: the main thread of the process held the lock.
  is_blocking_thread_main LONG,
  -- Thread id of the thread that held the lock.
  blocking_thread_tid LONG,
  -- Slice of the binder call that the thread answered meanwhile; NULL: none.
  binder_reply_id LONG,
  -- Start of this slice (ns).
  binder_reply_ts TIMESTAMP,
  -- Thread id of this slice.
  binder_reply_tid LONG,
  -- Process id.
  pid LONG,
  -- First wait that began for a lock that this waiting thread held; NULL: none.
  child_id LONG,
  -- Name of the lock, if slices NAME_lock_acquire and NAME_lock_held are around.
  lock_name STRING
) AS
SELECT
  p.parent_id,
  w.blocking_method, w.blocked_method, w.short_blocking_method, w.short_blocked_method,
  w.blocking_src, w.blocked_src, w.waiter_count, w.blocked_utid, w.blocked_thread_name,
  w.blocking_utid, w.blocking_thread_name, w.blocking_tid, w.upid, w.process_name, w.id, w.ts,
  w.dur, w.monotonic_dur, w.track_id, w.is_blocked_thread_main, w.blocked_thread_tid,
  w.is_blocking_thread_main, w.blocking_thread_tid, w.binder_reply_id, w.binder_reply_ts,
  w.binder_reply_tid, w.pid,
  c.child_id, w.lock_name
FROM android_monitor_contention w
LEFT JOIN _children p ON p.id = w.id
LEFT JOIN _child_of c ON c.id = w.id;

CREATE PERFETTO INDEX _android_monitor_contention_chain_method
ON android_monitor_contention_chain(blocking_method, blocking_utid, ts);

-- The first wait for a lock, until the first of all waiting threads has the lock: id,
-- blocking_utid, ts and dur (ns). After that, another thread may hold the lock.
CREATE PERFETTO VIEW _first_blocked_contention AS
SELECT w.id, w.blocking_utid, w.ts, min(other.ts + other.dur) - w.ts AS dur
FROM android_monitor_contention_chain w
JOIN android_monitor_contention_chain other
  ON other.blocking_method = w.blocking_method AND other.blocking_utid = w.blocking_utid
  AND other.ts BETWEEN w.ts AND w.ts + w.dur
WHERE w.waiter_count = 0
GROUP BY w.id;

-- States of all threads, for the join below.
CREATE PERFETTO VIEW _blocking_thread_state AS
SELECT utid AS blocking_utid, ts, dur, state, blocked_function FROM thread_state;

CREATE VIRTUAL TABLE _android_monitor_contention_chain_thread_state USING SPAN_JOIN(
  _first_blocked_contention PARTITIONED blocking_utid,
  _blocking_thread_state PARTITIONED blocking_utid);

-- States of the thread that held the lock during the first wait for the lock.
CREATE PERFETTO TABLE android_monitor_contention_chain_thread_state(
  -- Slice of the wait.
  id LONG,
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Thread that held the lock.
  blocking_utid JOINID(thread.id),
  -- Function of the kernel that the thread waited in.
  blocked_function STRING,
  -- State of the thread, see thread_state.
  state STRING
) AS
SELECT id, ts, dur, blocking_utid, blocked_function, state
FROM _android_monitor_contention_chain_thread_state;

-- States of threads that others waited for, as sums by wait and state.
CREATE PERFETTO VIEW android_monitor_contention_chain_thread_state_by_txn(
  -- Slice of the wait.
  id LONG,
  -- State of the thread that held the lock.
  thread_state STRING,
  -- How long the thread was in the state (ns).
  thread_state_dur DURATION,
  -- Number of times.
  thread_state_count LONG
) AS
SELECT id, state AS thread_state, sum(dur) AS thread_state_dur, count(dur) AS thread_state_count
FROM android_monitor_contention_chain_thread_state
GROUP BY id, state;

-- States of threads that others waited for, as sums by wait and function of the kernel.
CREATE PERFETTO VIEW android_monitor_contention_chain_blocked_functions_by_txn(
  -- Slice of the wait.
  id LONG,
  -- Function of the kernel that the thread that held the lock waited in.
  blocked_function STRING,
  -- Duration (ns).
  blocked_function_dur DURATION,
  -- Number of times.
  blocked_function_count LONG
) AS
SELECT id, blocked_function, sum(dur) AS blocked_function_dur,
  count(dur) AS blocked_function_count
FROM android_monitor_contention_chain_thread_state
WHERE blocked_function IS NOT NULL
GROUP BY id, blocked_function;

-- The waits of a process as a profile for pprof. A frame is THREAD:METHOD; a frame that waits
-- stands below the frame that holds the lock. The weight is the time of the wait.
CREATE PERFETTO FUNCTION android_monitor_contention_graph(
  -- Process.
  upid JOINID(process.id)
)
RETURNS TABLE(
  -- Profile, for pprof.
  pprof BYTES
) AS
WITH RECURSIVE
  link AS MATERIALIZED (
    SELECT id, parent_id, dur,
      iif(blocked_thread_name GLOB 'binder:*', 'binder', blocked_thread_name) || ':'
        || short_blocked_method AS waits,
      iif(blocking_thread_name GLOB 'binder:*', 'binder', blocking_thread_name) || ':'
        || short_blocking_method AS holds
    FROM android_monitor_contention_chain
    WHERE upid = $upid
    GROUP BY id, parent_id
  ),
  graph(id, dur, stack) AS (
    SELECT id, dur, cat_stacks(waits, holds) FROM link WHERE parent_id IS NULL
    UNION ALL
    SELECT l.id, l.dur, cat_stacks(l.waits, l.holds, g.stack)
    FROM graph g JOIN link l ON l.parent_id = g.id
  )
SELECT experimental_profile(stack, 'duration', 'ns', dur) AS pprof FROM graph;
