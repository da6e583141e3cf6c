-- SPDX-License-Identifier: Apache-2.0
--
-- Views about memory: reclaim by threads and processes, rates of the kernel's counters, memory
-- pressure, pinned files, heaps. Perfetto does not have these views. docs/views.md has an example
-- of each.

-- First and last moment of each machine's recording. Rows that are open at the end of the machine's
-- trace end there, whatever other traces are in the database.
--   machine_id: Machine.
--   trace_id: Trace.
--   start_ts: First moment with data (ns).
--   end_ts: Last moment with data (ns).
CREATE VIEW machine_bounds AS
SELECT m.machine_id, m.trace_id, t.start_ts, t.end_ts FROM trace_machine m
JOIN trace t ON t.id = m.trace_id;

-- Episodes of reclaim and compaction: the cause, the thread that did the work, and the result.
--   kind: direct reclaim, memcg reclaim, kswapd or compaction.
--   ts: Begin (ns).
--   dur: Duration (ns); without an end, until the end of the thread or of its trace.
--   utid: Thread that did the work.
--   upid: Process of the thread.
--   thread_name: Name of the thread.
--   process_name: Name of the process.
--   cause: Cause, if the trace has it.
--   allocation_order: The allocation wanted 2^allocation_order pages.
--   gfp_flags: The kernel's flags of that allocation.
--   reclaimed_pages: Pages that the episode freed (direct and memcg reclaim).
--   scanned_pages: Pages that the scanners of compaction passed.
--   machine_id: Machine.
--   utc: Begin on the wall clock (UTC, ISO 8601); NULL if the trace has no real time.
CREATE VIEW reclaim_episode AS
WITH
event AS MATERIALIZED (
  SELECT id, ts, name, utid, arg_set_id FROM ftrace_event
  WHERE name IN ('mm_vmscan_kswapd_wake', 'mm_vmscan_kswapd_sleep', 'mm_compaction_begin',
                 'mm_compaction_end')),
kswapd_change AS (
  SELECT *, lag(name) OVER (PARTITION BY utid ORDER BY id) AS before FROM event
  WHERE name GLOB 'mm_vmscan_kswapd_*'),
kswapd AS (
  SELECT *, lead(ts) OVER (PARTITION BY utid ORDER BY id) AS next_ts FROM kswapd_change
  WHERE before IS NOT name),
compaction AS (
  SELECT *, lead(ts) OVER w AS next_ts, lead(name) OVER w AS next_name,
         lead(arg_set_id) OVER w AS next_args
  FROM event WHERE name GLOB 'mm_compaction_*' WINDOW w AS (PARTITION BY utid ORDER BY id)),
episode AS (
  SELECT replace(replace(s.name, 'mm_vmscan_', ''), '_', ' ') AS kind, s.ts,
    CASE WHEN s.dur >= 0 THEN s.dur END AS dur, t.utid,
    'allocation of 2^' || coalesce(
      (SELECT int_value FROM args a
       WHERE a.arg_set_id = s.arg_set_id AND a.key GLOB '*_reclaim_order'), 0) || ' pages'
      AS cause,
    (SELECT int_value FROM args a
     WHERE a.arg_set_id = s.arg_set_id AND a.key GLOB '*_reclaim_order')
      AS allocation_order,
    (SELECT int_value FROM args a
     WHERE a.arg_set_id = s.arg_set_id AND a.key GLOB '*_reclaim_gfp_flags') AS gfp_flags,
    (SELECT int_value FROM args a
     WHERE a.arg_set_id = s.arg_set_id AND a.key GLOB '*_reclaim_nr_reclaimed')
      AS reclaimed_pages,
    NULL AS scanned_pages
  FROM slice s JOIN thread_track t ON t.id = s.track_id
  WHERE s.name IN ('mm_vmscan_direct_reclaim', 'mm_vmscan_memcg_reclaim')
  UNION ALL
  SELECT 'kswapd', k.ts, k.next_ts - k.ts, k.utid,
    'little free memory in node ' || coalesce(
      (SELECT int_value FROM args a WHERE a.arg_set_id = k.arg_set_id AND a.key = 'nid'), 0),
    (SELECT int_value FROM args a WHERE a.arg_set_id = k.arg_set_id AND a.key = 'order'),
    NULL, NULL, NULL
  FROM kswapd k WHERE k.name = 'mm_vmscan_kswapd_wake'
  UNION ALL
  SELECT 'compaction', c.ts,
    CASE c.next_name WHEN 'mm_compaction_end' THEN c.next_ts - c.ts END, c.utid,
    CASE WHEN t.name GLOB 'kcompactd*' THEN 'background' WHEN t.name GLOB 'kswapd*' THEN 'kswapd'
      ELSE 'allocation, or request of a user' END,
    NULL, NULL, NULL,
    (SELECT sum(CASE a.key WHEN 'free_pfn' THEN -a.int_value ELSE a.int_value END) FROM args a
      WHERE a.arg_set_id = c.next_args AND a.key IN ('migrate_pfn', 'free_pfn')) -
    (SELECT sum(CASE a.key WHEN 'free_pfn' THEN -a.int_value ELSE a.int_value END) FROM args a
      WHERE a.arg_set_id = c.arg_set_id AND a.key IN ('migrate_pfn', 'free_pfn'))
  FROM compaction c LEFT JOIN thread t ON t.utid = c.utid WHERE c.name = 'mm_compaction_begin')
SELECT CAST(e.kind AS TEXT) AS kind, e.ts,
  CAST(coalesce(e.dur, max(0, coalesce(t.end_ts, p.end_ts,
    (SELECT b.end_ts FROM machine_bounds b WHERE b.machine_id = t.machine_id),
    (SELECT end_ts FROM trace_bounds)) - e.ts)) AS INTEGER) AS dur,
  e.utid, t.upid, t.name AS thread_name, p.name AS process_name, CAST(e.cause AS TEXT) AS cause,
  CAST(e.allocation_order AS INTEGER) AS allocation_order,
  CAST(e.gfp_flags AS INTEGER) AS gfp_flags, CAST(e.reclaimed_pages AS INTEGER) AS reclaimed_pages,
  CAST(e.scanned_pages AS INTEGER) AS scanned_pages, t.machine_id,
  CAST(strftime('%Y-%m-%dT%H:%M:%fZ', (e.ts + (SELECT realtime_offset - ts_shift FROM trace
    ORDER BY id LIMIT 1)) / 1e9, 'unixepoch') AS TEXT) AS utc
FROM episode e LEFT JOIN thread t ON t.utid = e.utid LEFT JOIN process p ON p.upid = t.upid;

-- The cost of reclaim and compaction for each process.
--   kind: direct reclaim, memcg reclaim, kswapd or compaction.
--   upid: Process.
--   pid: Process id.
--   process_name: Name of the process, or of the thread if the process is not known.
--   episodes: Number of episodes.
--   dur: Total duration (ns).
--   max_dur: The longest episode (ns).
--   reclaimed_pages: Total of freed pages.
CREATE VIEW reclaim_by_process AS
SELECT CAST(e.kind AS TEXT) AS kind, e.upid, p.pid,
  CAST(coalesce(p.name, e.process_name, e.thread_name) AS TEXT) AS process_name,
  CAST(count(*) AS INTEGER) AS episodes,
  CAST(sum(e.dur) AS INTEGER) AS dur, CAST(max(e.dur) AS INTEGER) AS max_dur,
  CAST(sum(e.reclaimed_pages) AS INTEGER) AS reclaimed_pages
FROM reclaim_episode e LEFT JOIN process p ON p.upid = e.upid
GROUP BY e.kind, coalesce(e.upid, -1 - e.utid);

-- Counters of /proc/vmstat as changes and rates, from one reading to the next.
--   ts: Start of the span, a reading (ns).
--   dur: Until the next reading (ns).
--   name: Counter.
--   value: Value at the start.
--   change: Change until the next reading; NULL if a counter that only grows went back.
--   per_second: The change in a second.
--   is_level: 1: a level that goes up and down (nr_*); 0: counts events since boot.
--   machine_id: Machine.
CREATE VIEW vmstat_rate AS
WITH reading AS (
  SELECT c.ts, t.name, c.value, t.name GLOB 'nr_*' AS is_level, t.machine_id,
    lead(c.ts) OVER w AS next_ts, lead(c.value) OVER w AS next_value
  FROM counter c JOIN counter_track t ON t.id = c.track_id WHERE t.type = 'vmstat'
  WINDOW w AS (PARTITION BY c.track_id, t.name, t.machine_id ORDER BY c.ts)),
change AS (
  SELECT *, next_ts - ts AS dur,
    CASE WHEN is_level OR next_value >= value THEN next_value - value END AS change
  FROM reading WHERE next_ts > ts)
SELECT ts, CAST(dur AS INTEGER) AS dur, name, value, CAST(change AS REAL) AS change,
  CAST(change * 1e9 / dur AS REAL) AS per_second, CAST(is_level AS INTEGER) AS is_level, machine_id
FROM change;

-- Counters of /proc/vmstat that count the pages which the kernel scanned and reclaimed. The
-- counters of kswapd and of direct reclaim leave out reclaim in memory cgroups. pgscan_anon with
-- pgscan_file, and pgsteal_anon with pgsteal_file (since Linux 5.8), count all reclaim.
--   track_id: Track of the counter, see counter_track.
--   name: Counter.
--   quantity: scanned or reclaimed.
--   share: all, kswapd, direct or other: a part of all reclaim, reclaim by kswapd, by tasks for
--     themselves, or by others.
--   in_total: 1: the sum of these counters is what was scanned or reclaimed in all.
--   has_memcg: 1: the sum includes reclaim in memory cgroups.
--   machine_id: Machine.
CREATE VIEW reclaim_counter AS
WITH
sorted AS (
  SELECT id, name, machine_id, name GLOB 'pgscan_*' AS is_scan, CASE
      WHEN name GLOB '*_anon' OR name GLOB '*_file' THEN 'all'
      WHEN name GLOB '*_kswapd*' THEN 'kswapd'
      WHEN name GLOB '*_direct*' THEN 'direct' ELSE 'other' END AS share
  FROM counter_track WHERE type = 'vmstat' AND (name GLOB 'pgscan_*' OR name GLOB 'pgsteal_*')
    AND name != 'pgscan_direct_throttle'),
summed AS (
  SELECT *, max(name GLOB '*_anon') OVER w AND max(name GLOB '*_file') OVER w AS has_memcg
  FROM sorted WINDOW w AS (PARTITION BY machine_id, is_scan))
SELECT CAST(id AS INTEGER) AS track_id, name,
  CAST(iif(is_scan, 'scanned', 'reclaimed') AS TEXT) AS quantity, CAST(share AS TEXT) AS share,
  CAST((share = 'all') = has_memcg AS INTEGER) AS in_total,
  CAST(has_memcg AS INTEGER) AS has_memcg, machine_id
FROM summed;

-- Memory of processes over time, one row for each period in which a counter stayed the same. The
-- rows of a process end with the process. A condition on any column of the process or its counter
-- makes SQLite read these counters alone.
--   ts: Start (ns).
--   dur: Until the next reading, or the end of the process or of its trace (ns).
--   upid: Process.
--   pid: Process id.
--   process_name: Name of the process.
--   name: Kind of memory: mem.rss, mem.rss.anon, mem.swap, ...
--   size_bytes: Memory (bytes).
--   change_bytes: Since the reading before (bytes).
--   machine_id: Machine.
CREATE VIEW process_memory AS
SELECT c.ts, CAST(coalesce(lead(c.ts) OVER w, p.end_ts, (SELECT b.end_ts FROM machine_bounds b
    WHERE b.machine_id = t.machine_id), (SELECT end_ts FROM trace_bounds)) - c.ts AS INTEGER)
    AS dur,
  t.upid, p.pid,
  p.name AS process_name, t.name, CAST(c.value AS INTEGER) AS size_bytes,
  CAST(c.value - lag(c.value) OVER w AS INTEGER) AS change_bytes, t.machine_id
FROM counter c JOIN process_counter_track t ON t.id = c.track_id JOIN process p ON p.upid = t.upid
WHERE t.type = 'process_memory' AND (p.end_ts IS NULL OR c.ts < p.end_ts)
WINDOW w AS (PARTITION BY c.track_id, t.upid, p.pid, p.name, t.name, t.machine_id ORDER BY c.ts);

-- Times of memory pressure: the kernel's stall counters (PSI), reclaim and stalled allocations,
-- side by side. An episode is a time in which tasks of one machine stalled or somebody reclaimed
-- there, with gaps of less than 100 ms closed.
--   ts: Begin (ns).
--   dur: Duration (ns).
--   some_stall_ns: Time in which at least one task waited for memory (PSI); NULL if the machine
--     has no PSI.
--   full_stall_ns: Time in which all tasks waited for memory (PSI).
--   direct_reclaims: Direct and memcg reclaims that began in the episode.
--   direct_reclaim_dur: Total duration of these reclaims (ns).
--   kswapd_dur: Time that kswapd was at work (ns).
--   compaction_dur: Total duration of compaction (ns).
--   reclaimed_pages: Pages that direct and memcg reclaims freed.
--   allocation_stalls: Allocations that had to wait (allocstall_*, from the readings in and
--     around the episode).
--   processes: Processes that reclaimed for themselves.
--   machine_id: Machine.
--   utc: Begin on the wall clock (UTC, ISO 8601); NULL if the trace has no real time.
CREATE VIEW pressure_episode AS
WITH
psi AS MATERIALIZED (
  SELECT t.machine_id, t.name, lag(c.ts) OVER w AS ts, c.ts AS end_ts,
         c.value - lag(c.value) OVER w AS stall_ns
  FROM counter c JOIN counter_track t ON t.id = c.track_id
  WHERE t.name IN ('psi.mem.some', 'psi.mem.full')
  WINDOW w AS (PARTITION BY c.track_id ORDER BY c.ts)),
span AS (
  SELECT machine_id, ts, end_ts, name AS what, stall_ns AS amount, NULL AS pages,
         NULL AS process_name
  FROM psi WHERE stall_ns > 0
  UNION ALL SELECT machine_id, ts, ts + dur, iif(kind GLOB '* reclaim', 'reclaim', kind), dur,
    reclaimed_pages, process_name
  FROM reclaim_episode
  UNION ALL SELECT machine_id, ts, ts + dur, 'allocstall', change, NULL, NULL
  FROM vmstat_rate WHERE name GLOB 'allocstall*' AND change > 0),
edge AS (
  SELECT *, ts > max(end_ts) OVER (PARTITION BY machine_id ORDER BY ts, end_ts
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 100000000 AS is_new FROM span),
numbered AS (
  SELECT *, sum(coalesce(is_new, 1)) OVER (PARTITION BY machine_id ORDER BY ts, end_ts) AS episode
  FROM edge),
episode AS (
  SELECT machine_id, min(ts) AS ts, max(end_ts) - min(ts) AS dur,
    sum(amount) FILTER (WHERE what = 'psi.mem.some') AS some,
    sum(amount) FILTER (WHERE what = 'psi.mem.full') AS full,
    count(*) FILTER (WHERE what = 'reclaim') AS direct_reclaims,
    coalesce(sum(amount) FILTER (WHERE what = 'reclaim'), 0) AS direct_reclaim_dur,
    coalesce(sum(amount) FILTER (WHERE what = 'kswapd'), 0) AS kswapd_dur,
    coalesce(sum(amount) FILTER (WHERE what = 'compaction'), 0) AS compaction_dur,
    sum(pages) AS reclaimed_pages,
    sum(amount) FILTER (WHERE what = 'allocstall') AS allocation_stalls,
    group_concat(DISTINCT process_name) FILTER (WHERE what = 'reclaim') AS processes
  FROM numbered GROUP BY machine_id, episode)
SELECT CAST(ts AS INTEGER) AS ts, CAST(dur AS INTEGER) AS dur,
  CAST(coalesce(some, (SELECT 0 FROM psi
                       WHERE psi.machine_id = e.machine_id AND name = 'psi.mem.some')) AS INTEGER)
    AS some_stall_ns,
  CAST(coalesce(full, (SELECT 0 FROM psi
                       WHERE psi.machine_id = e.machine_id AND name = 'psi.mem.full')) AS INTEGER)
    AS full_stall_ns,
  CAST(direct_reclaims AS INTEGER) AS direct_reclaims,
  CAST(direct_reclaim_dur AS INTEGER) AS direct_reclaim_dur,
  CAST(kswapd_dur AS INTEGER) AS kswapd_dur, CAST(compaction_dur AS INTEGER) AS compaction_dur,
  CAST(reclaimed_pages AS INTEGER) AS reclaimed_pages,
  CAST(allocation_stalls AS INTEGER) AS allocation_stalls, CAST(processes AS TEXT) AS processes,
  machine_id,
  CAST(strftime('%Y-%m-%dT%H:%M:%fZ', (ts + (SELECT realtime_offset - ts_shift FROM trace
    ORDER BY id LIMIT 1)) / 1e9, 'unixepoch') AS TEXT) AS utc
FROM episode e;

-- Ranges of pages that the pinlists name in the files whose residency was watched. The ranges are
-- widened to whole pages. Ranges that overlap or touch are merged.
--   pinlist_id: List, see pinlist.
--   file_id: File, see page_residency_file.
--   path: File.
--   start_page: First page.
--   end_page: Page after the last.
CREATE VIEW pin_range AS
WITH page AS (
  SELECT p.id AS pinlist_id, f.id AS file_id, f.path,
         r.offset_bytes / f.page_size_bytes AS start_page,
    (r.offset_bytes + r.size_bytes + f.page_size_bytes - 1) / f.page_size_bytes AS end_page
  FROM page_residency_file f
  JOIN pinlist p ON f.path = p.target OR substr(f.path, -length(p.target) - 1) = '/' || p.target
  JOIN pinlist_range r ON r.pinlist_id = p.id WHERE r.size_bytes > 0),
edge AS (
  SELECT *, start_page > max(end_page) OVER (PARTITION BY pinlist_id, file_id
                                             ORDER BY start_page, end_page
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_new FROM page),
numbered AS (
  SELECT *, sum(coalesce(is_new, 1)) OVER (PARTITION BY pinlist_id, file_id
                                           ORDER BY start_page, end_page) AS run FROM edge)
SELECT pinlist_id, file_id, path, CAST(min(start_page) AS INTEGER) AS start_page,
  CAST(max(end_page) AS INTEGER) AS end_page
FROM numbered GROUP BY pinlist_id, file_id, run;

-- How much of each pinlist was in the page cache, from one exact sample to the next.
--   pinlist_id: List, see pinlist.
--   file_id: File, see page_residency_file.
--   path: File.
--   sample_id: Sample.
--   ts: Start of the reading (ns).
--   dur: Until the next sample of the file, or the end of the file or of its trace (ns).
--   pinned_pages: Pages of the list, as far as the file has them.
--   resident_pages: The part of these pages that is in the page cache.
--   resident_percent: resident_pages in percent of pinned_pages.
CREATE VIEW pin_coverage AS
WITH
sample AS (
  SELECT s.id, s.ts, s.file_id, s.pages, s.detail,
    coalesce(lead(s.ts) OVER (PARTITION BY s.file_id ORDER BY s.id), f.gone_ts,
             (SELECT b.end_ts FROM machine_bounds b
      WHERE b.machine_id = f.machine_id), (SELECT end_ts FROM trace_bounds)) - s.ts AS dur
  FROM page_residency_sample s JOIN page_residency_file f ON f.id = s.file_id),
covered AS (
  SELECT p.pinlist_id, p.file_id, p.path, s.id AS sample_id, s.ts, s.dur,
    sum(max(0, min(p.end_page, s.pages) - p.start_page)) AS pinned_pages,
    sum((SELECT coalesce(sum(max(0, min(r.end_page, p.end_page) - max(r.start_page, p.start_page))),
                         0)
      FROM page_residency_span r
      WHERE r.file_id = s.file_id AND r.last_sample_id >= s.id AND r.first_sample_id <= s.id))
      AS resident_pages
  FROM pin_range p JOIN sample s ON s.file_id = p.file_id WHERE s.detail = 'exact'
  GROUP BY p.pinlist_id, p.file_id, s.id)
SELECT pinlist_id, file_id, path, sample_id, ts, CAST(dur AS INTEGER) AS dur,
  CAST(pinned_pages AS INTEGER) AS pinned_pages, CAST(resident_pages AS INTEGER) AS resident_pages,
  CAST(round(100.0 * resident_pages / nullif(pinned_pages, 0), 1) AS REAL) AS resident_percent
FROM covered;

-- Pages of pinlists that went out of the page cache.
--   pinlist_id: List, see pinlist.
--   file_id: File, see page_residency_file.
--   path: File.
--   sample_id: Sample that found the change.
--   ts: Time of the sample (ns).
--   start_page: First page.
--   end_page: Page after the last.
--   n_pages: Pages.
CREATE VIEW pin_eviction AS
SELECT p.pinlist_id, p.file_id, p.path, c.sample_id, c.ts,
  CAST(max(c.start_page, p.start_page) AS INTEGER) AS start_page,
  CAST(min(c.end_page, p.end_page) AS INTEGER) AS end_page,
  CAST(min(c.end_page, p.end_page) - max(c.start_page, p.start_page) AS INTEGER) AS n_pages
FROM pin_range p JOIN page_residency_change c ON c.file_id = p.file_id
WHERE NOT c.came AND c.start_page < p.end_page AND c.end_page > p.start_page;

-- Pages of a file that its pinlists lack, and for how much of the time they were in the page cache.
-- Pages at 100 percent, and pages that were read back often, are candidates for a pinlist.
--   file_id: File, see page_residency_file.
--   path: File.
--   start_page: First page.
--   end_page: Page after the last.
--   n_pages: Pages.
--   resident_ns: Time that the pages were in the page cache (ns).
--   resident_percent: Share of the time that the file was watched.
--   times_resident: Number of exact samples that show the pages.
--   times_evicted: Number of times that the pages left the page cache.
--   times_read_back: Number of times that the pages came back.
CREATE VIEW pin_candidate AS
WITH
listed AS (SELECT DISTINCT file_id FROM pin_range),
sample AS MATERIALIZED (
  SELECT s.id, s.file_id, s.detail = 'exact' AS is_exact,
    sum(s.detail = 'exact') OVER (PARTITION BY s.file_id ORDER BY s.id) AS n_exact
  FROM page_residency_sample s JOIN listed USING (file_id)),
watched AS (
  SELECT s.file_id, min(s.id) AS first_sample_id,
         coalesce(f.gone_ts, (SELECT b.end_ts FROM machine_bounds b
      WHERE b.machine_id = f.machine_id), (SELECT end_ts FROM trace_bounds)) - min(s.ts) AS ns
  FROM page_residency_sample s JOIN page_residency_file f ON f.id = s.file_id
  WHERE s.detail = 'exact' GROUP BY s.file_id),
-- Each range of pages that changes a sum, and the amounts that the range adds to the sums.
run AS (
  SELECT r.file_id, r.start_page, r.end_page, r.dur AS ns,
         z.n_exact - a.n_exact + a.is_exact AS shown,
    r.first_sample_id = w.first_sample_id AS at_begin, 0 AS went, 0 AS came, 0 AS pins
  FROM page_residency_span r JOIN watched w USING (file_id)
  JOIN sample a ON a.id = r.first_sample_id JOIN sample z ON z.id = r.last_sample_id
  UNION ALL SELECT c.file_id, c.start_page, c.end_page, 0, 0, 0, NOT c.came, c.came, 0
  FROM page_residency_change c JOIN listed USING (file_id)
  UNION ALL SELECT file_id, start_page, end_page, 0, 0, 0, 0, 0, 1 FROM pin_range),
border AS (
  SELECT file_id, start_page AS page, ns, shown, at_begin, went, came, pins FROM run
  UNION ALL SELECT file_id, end_page, -ns, -shown, -at_begin, -went, -came, -pins FROM run),
step AS (
  SELECT file_id, page, sum(ns) AS ns, sum(shown) AS shown, sum(at_begin) AS at_begin,
         sum(went) AS went,
    sum(came) AS came, sum(pins) AS pins FROM border GROUP BY file_id, page),
piece AS (
  SELECT file_id, page AS start_page, lead(page) OVER w AS end_page, sum(ns) OVER w AS ns,
         sum(shown) OVER w AS shown,
    sum(at_begin) OVER w AS at_begin, sum(went) OVER w AS went, sum(came) OVER w AS came,
    sum(pins) OVER w AS pins
  FROM step WINDOW w AS (PARTITION BY file_id ORDER BY page))
SELECT p.file_id, f.path, CAST(p.start_page AS INTEGER) AS start_page,
  CAST(p.end_page AS INTEGER) AS end_page, CAST(p.end_page - p.start_page AS INTEGER) AS n_pages,
  CAST(p.ns AS INTEGER) AS resident_ns,
  CAST(round(100.0 * p.ns / nullif(w.ns, 0), 1) AS REAL) AS resident_percent,
  CAST(p.shown AS INTEGER) AS times_resident, CAST(p.went AS INTEGER) AS times_evicted,
  CAST(max(0, min(p.went, p.came - NOT p.at_begin)) AS INTEGER) AS times_read_back
FROM piece p JOIN page_residency_file f ON f.id = p.file_id JOIN watched w ON w.file_id = p.file_id
WHERE p.ns > 0 AND NOT p.pins;

-- Frames with their best known names, and the source of each name. Each inlined function has a row,
-- too.
--   frame_id: Frame, see stack_profile_frame.
--   inline_depth: Distance from the innermost function of the frame, from 0. The last one is not
--     inlined.
--   function: Function.
--   source: Where the name comes from: deobfuscation, symbols (an ELF file), perf map, or trace.
--   mapping_name: File, or kind of memory.
--   build_id: Build id of the file, in hex.
--   rel_pc: Address, relative to the mapping.
--   source_file: Source file, if known.
--   line_number: Line in the source file.
CREATE VIEW stack_frame AS
WITH symbol AS (
  SELECT symbol_set_id, name, source_file, line_number,
    row_number() OVER (PARTITION BY symbol_set_id ORDER BY id) - 1 AS inline_depth
    FROM stack_profile_symbol),
mapped AS (SELECT DISTINCT frame_id FROM perf_map_frame)
SELECT f.id AS frame_id, CAST(coalesce(s.inline_depth, 0) AS INTEGER) AS inline_depth,
  CAST(coalesce(nullif(f.deobfuscated_name, ''), nullif(s.name, ''), nullif(f.name, '')) AS TEXT)
    AS function,
  CAST(CASE WHEN f.deobfuscated_name != '' THEN 'deobfuscation' WHEN s.name != '' THEN 'symbols'
    WHEN f.name != '' AND m.frame_id IS NOT NULL THEN 'perf map'
    WHEN f.name != '' THEN 'trace' END AS TEXT) AS source,
  g.name AS mapping_name, g.build_id, f.rel_pc, s.source_file, s.line_number
FROM stack_profile_frame f LEFT JOIN stack_profile_mapping g ON g.id = f.mapping
LEFT JOIN symbol s ON s.symbol_set_id = f.symbol_set_id
  AND (s.inline_depth = 0 OR coalesce(f.deobfuscated_name, '') = '')
LEFT JOIN mapped m ON m.frame_id = f.id;

-- The growth of heaps from dump to dump, for each function: by its own allocations, and by those of
-- the functions that it called.
--   upid: Process.
--   process_name: Name of the process.
--   heap_name: Allocator.
--   ts: Dump (ns).
--   previous_ts: Time of the dump before (ns); NULL for the first dump.
--   function: Function; frames without a name stand under the name of their mapping.
--   self_bytes: Growth by allocations that this function itself made; negative: shrinkage.
--   growth_bytes: Growth by allocations of this function and of the functions that it called.
--   growth_count: growth_bytes as a number of allocations.
--   total_bytes: Sum of growth_bytes since the profile began.
CREATE VIEW heap_growth AS
WITH RECURSIVE
named AS MATERIALIZED (
  SELECT frame_id, inline_depth,
    coalesce(function, '[' || coalesce(nullif(mapping_name, ''), 'unknown') || ']') AS function
  FROM stack_frame),
leaf AS MATERIALIZED (SELECT DISTINCT callsite_id AS id FROM heap_profile_allocation),
up(leaf_id, parent_id, frame_id, is_self) AS (
  SELECT l.id, c.parent_id, c.frame_id, 1 FROM leaf l JOIN stack_profile_callsite c ON c.id = l.id
  UNION ALL
  SELECT u.leaf_id, c.parent_id, c.frame_id, 0 FROM up u
  JOIN stack_profile_callsite c ON c.id = u.parent_id),
below AS MATERIALIZED (
  SELECT u.leaf_id, n.function, max(u.is_self AND n.inline_depth = 0) AS is_self
  FROM up u JOIN named n ON n.frame_id = u.frame_id GROUP BY 1, 2),
dump AS (
  SELECT upid, heap_name, ts, lag(ts) OVER (PARTITION BY upid, heap_name ORDER BY ts) AS previous_ts
  FROM (SELECT DISTINCT upid, heap_name, ts FROM heap_profile_allocation)),
growth AS (
  SELECT h.upid, h.heap_name, h.ts, b.function, sum(iif(b.is_self, h.size, 0)) AS self_bytes,
         sum(h.size) AS growth_bytes,
    sum(h.count) AS growth_count
  FROM heap_profile_allocation h JOIN below b ON b.leaf_id = h.callsite_id GROUP BY 1, 2, 3, 4)
SELECT g.upid, p.name AS process_name, g.heap_name, g.ts,
  CAST(d.previous_ts AS INTEGER) AS previous_ts, CAST(g.function AS TEXT) AS function,
  CAST(g.self_bytes AS INTEGER) AS self_bytes, CAST(g.growth_bytes AS INTEGER) AS growth_bytes,
  CAST(g.growth_count AS INTEGER) AS growth_count,
  CAST(sum(g.growth_bytes) OVER (PARTITION BY g.upid, g.heap_name, g.function
                                 ORDER BY g.ts) AS INTEGER) AS total_bytes
FROM growth g JOIN dump d ON d.upid = g.upid AND d.heap_name IS g.heap_name AND d.ts = g.ts
LEFT JOIN process p ON p.upid = g.upid;

-- Functions of perf maps that occur in call stacks, and the samples in which the function is the
-- innermost frame.
--   perf_map_id: Map, see perf_map.
--   path: File of the map.
--   upid: Process.
--   process_name: Name of the process.
--   function: Function.
--   start: First address of the function's code.
--   n_frames: Frames in the function's code.
--   first_ts: First sample (ns).
--   last_ts: Last sample (ns).
--   allocated_bytes: Allocations whose innermost frame is the function (bytes).
--   perf_samples: Samples of perf whose innermost frame is the function.
CREATE VIEW perf_map_function AS
WITH
heap AS (
  SELECT f.rowid AS id, sum(h.size) AS bytes FROM heap_profile_allocation h
  JOIN stack_profile_callsite c ON c.id = h.callsite_id
  JOIN perf_map_frame f ON f.upid = h.upid AND f.frame_id = c.frame_id
    AND h.ts BETWEEN f.first_ts AND f.last_ts
  WHERE h.size > 0 GROUP BY 1),
perf AS (
  SELECT f.rowid AS id, count(*) AS n FROM perf_sample s JOIN thread t USING (utid)
  JOIN stack_profile_callsite c ON c.id = s.callsite_id
  JOIN perf_map_frame f ON f.upid = t.upid AND f.frame_id = c.frame_id
    AND s.ts BETWEEN f.first_ts AND f.last_ts GROUP BY 1)
SELECT m.id AS perf_map_id, m.path, f.upid, p.name AS process_name, s.name AS function, s.start,
  CAST(count(DISTINCT f.frame_id) AS INTEGER) AS n_frames,
  CAST(min(f.first_ts) AS INTEGER) AS first_ts, CAST(max(f.last_ts) AS INTEGER) AS last_ts,
  CAST(coalesce(sum(h.bytes), 0) AS INTEGER) AS allocated_bytes,
  CAST(coalesce(sum(e.n), 0) AS INTEGER) AS perf_samples
FROM perf_map_frame f JOIN perf_map_symbol s ON s.id = f.symbol_id
JOIN perf_map m ON m.id = s.perf_map_id
LEFT JOIN process p ON p.upid = f.upid
LEFT JOIN heap h ON h.id = f.rowid LEFT JOIN perf e ON e.id = f.rowid
GROUP BY s.id, f.upid;

-- The methods of each stack of an allocation log.
--   stack_id: Stack, see alloc_log_stack.
--   depth: Distance from the outermost method, from 0.
--   frame_id: Method, see alloc_log_frame.
CREATE VIEW alloc_log_stack_frame AS
SELECT g.id, s.id AS stack_id, CAST(g.id - s.first_frame AS INTEGER) AS depth, g.frame_id
FROM alloc_log_stack s
JOIN _alloc_log_stack_frame g ON g.id >= s.first_frame AND g.id < s.first_frame + s.n_frames;

-- The frames of every call stack that was sampled, each with the name that it had at that time.
--   kind: heap profile, a sampling profiler (linux.perf and others), or Java allocations.
--   sample_id: Row in heap_profile_allocation, in stack_sample, or in alloc_log_stack.
--   upid: Process; NULL for logs of Java allocations.
--   ts: Time of the sample or dump; NULL for logs of Java allocations (ns).
--   depth: Distance from the innermost function, from 0.
--   frame_id: Frame, see stack_profile_frame; of Java allocations, see alloc_log_frame.
--   function: Function.
--   source: Where the name comes from: deobfuscation, symbols (an ELF file), perf map, trace, or
--     log.
--   mapping_name: File, or kind of memory.
CREATE VIEW call_stack_frame AS
WITH RECURSIVE
sample(kind, id, upid, ts, callsite_id) AS (
  SELECT 'heap profile', id, upid, ts, callsite_id FROM heap_profile_allocation
  WHERE callsite_id IS NOT NULL UNION ALL
  SELECT s.source, s.id, coalesce(t.upid, c.upid), s.ts, s.callsite_id FROM _profiler_sample s
  LEFT JOIN thread t USING (utid)
  LEFT JOIN _profiler_task_context c ON c.id = s.task_context_id WHERE s.callsite_id IS NOT NULL),
named AS MATERIALIZED (SELECT frame_id, inline_depth, function, source, mapping_name
                       FROM stack_frame),
inlined AS MATERIALIZED (SELECT frame_id, max(inline_depth) AS n FROM named
                         WHERE inline_depth > 0 GROUP BY 1),
up(leaf_id, depth, frame_id, parent_id) AS (
  SELECT id, 0, frame_id, parent_id FROM stack_profile_callsite
  WHERE id IN (SELECT callsite_id FROM sample) UNION ALL
  SELECT u.leaf_id, u.depth + 1 + coalesce(i.n, 0), c.frame_id, c.parent_id
  FROM up u JOIN stack_profile_callsite c ON c.id = u.parent_id
  LEFT JOIN inlined i ON i.frame_id = u.frame_id)
SELECT s.kind, s.id AS sample_id, CAST(s.upid AS INTEGER) AS upid, s.ts,
  CAST(u.depth + coalesce(n.inline_depth, 0) AS INTEGER) AS depth, u.frame_id,
  CAST(coalesce(n.function, y.name) AS TEXT) AS function,
  CAST(coalesce(n.source, iif(y.name IS NULL, NULL, 'perf map')) AS TEXT) AS source,
  n.mapping_name
FROM sample s JOIN up u ON u.leaf_id = s.callsite_id LEFT JOIN named n ON n.frame_id = u.frame_id
LEFT JOIN perf_map_frame p ON p.upid = s.upid AND p.frame_id = u.frame_id
  AND s.ts BETWEEN p.first_ts AND p.last_ts
LEFT JOIN perf_map_symbol y ON y.id = p.symbol_id
UNION ALL
SELECT 'Java allocations', s.id, NULL, NULL, s.n_frames - 1 - g.depth, g.frame_id,
       f.name, 'log', NULL
FROM alloc_log_stack s JOIN alloc_log_stack_frame g ON g.stack_id = s.id
JOIN alloc_log_frame f ON f.id = g.frame_id;

-- Java allocations of logs for each method: its own, and those of the methods that it called.
--   alloc_log_id: Log, see alloc_log.
--   method: Method, as the log spells it.
--   self_samples: Samples whose innermost method is this one.
--   total_samples: Samples with the method on the stack.
--   self_bytes: Bytes of the sampled objects whose innermost method is this one.
--   total_bytes: Bytes of the sampled objects with the method on the stack.
CREATE VIEW alloc_log_method AS
WITH once AS (
  SELECT s.id, s.alloc_log_id, f.name, s.n_samples, s.n_samples * r.size_bytes AS bytes,
    max(g.id = s.first_frame + s.n_frames - 1) AS is_self
  FROM alloc_log_stack s JOIN alloc_log_record r ON r.id = s.record_id
  JOIN _alloc_log_stack_frame g ON g.id >= s.first_frame AND g.id < s.first_frame + s.n_frames
  JOIN alloc_log_frame f ON f.id = g.frame_id GROUP BY s.id, f.name)
SELECT alloc_log_id, name AS method,
  CAST(sum(iif(is_self, n_samples, 0)) AS INTEGER) AS self_samples,
  CAST(sum(n_samples) AS INTEGER) AS total_samples,
  CAST(sum(iif(is_self, bytes, 0)) AS INTEGER) AS self_bytes,
  CAST(sum(bytes) AS INTEGER) AS total_bytes
FROM once GROUP BY alloc_log_id, name;

-- Java allocations of logs, by the type of the object.
--   alloc_log_id: Log, see alloc_log.
--   type: Type, as a JVM signature.
--   samples: Samples.
--   bytes: Bytes of the sampled objects.
CREATE VIEW alloc_log_type AS
SELECT s.alloc_log_id, r.type, CAST(sum(s.n_samples) AS INTEGER) AS samples,
  CAST(sum(s.n_samples * r.size_bytes) AS INTEGER) AS bytes
FROM alloc_log_stack s JOIN alloc_log_record r ON r.id = s.record_id GROUP BY 1, 2;

-- Java allocations of logs, by thread.
--   alloc_log_id: Log, see alloc_log.
--   thread_name: Thread.
--   samples: Samples.
--   bytes: Bytes of the sampled objects.
CREATE VIEW alloc_log_thread AS
SELECT s.alloc_log_id, r.thread_name, CAST(sum(s.n_samples) AS INTEGER) AS samples,
  CAST(sum(s.n_samples * r.size_bytes) AS INTEGER) AS bytes
FROM alloc_log_stack s JOIN alloc_log_record r ON r.id = s.record_id GROUP BY 1, 2;

-- The memory of profiled processes next to the sums of their heap profiles. The difference is
-- divided into parts with names. The parts add up: profile plus differences make the anonymous
-- memory; with the other mappings, this makes the resident and swapped memory. Only readings of one
-- moment are compared.
-- The mappings are read within five seconds after the dump; a reading up to 20 ms before the dump
-- belongs to the dump, too, because dumps have the time of a coarse clock. The count of the
-- allocator is at most 50 ms away from the dump.
--   upid: Process.
--   pid: Process id.
--   process_name: Name of the process.
--   ts: Time of a reading of the process's mappings, or, without a reading, of a dump (ns).
--   layer: profile, allocator, process, or difference between them.
--   part: Part of the memory; parts of the process are kinds of mappings.
--   bytes: Size (bytes); of a difference, the size that `meaning` explains.
--   meaning: Explanation of the part.
CREATE VIEW memory_account AS
WITH
dump AS MATERIALIZED (SELECT DISTINCT upid, ts FROM heap_profile_allocation),
look AS MATERIALIZED (SELECT DISTINCT upid, ts FROM profiler_smaps),
moment AS MATERIALIZED (
  SELECT d.upid, coalesce(l.ts, d.ts) AS ts, max(d.ts) AS dump_ts
  FROM dump d
  LEFT JOIN look l ON l.upid = d.upid AND l.ts BETWEEN d.ts - 20000000 AND d.ts + 5000000000
  WHERE l.ts IS NOT NULL OR d.upid NOT IN (
    SELECT o.upid FROM look o
    JOIN dump b ON b.upid = o.upid AND o.ts BETWEEN b.ts - 20000000 AND b.ts + 5000000000)
  GROUP BY d.upid, coalesce(l.ts, d.ts)),
mapped AS MATERIALIZED (
  SELECT s.upid, s.ts,
    CASE WHEN s.path = '[heap]' THEN 'heap' WHEN s.path = '[anon:malloc arena]' THEN 'malloc arenas'
      WHEN s.path IN ('[stack]', '[anon:thread stack]') OR s.path GLOB '[[]stack:*'
        OR s.path GLOB '[[]anon:stack_and_tls*'
        THEN 'stacks'
      WHEN s.path = '[anon:libmmheap.so]' THEN 'profiler'
      WHEN s.path IN ('', '[anon]') OR s.path GLOB '[[]anon*' THEN 'anonymous'
      WHEN s.path GLOB '/dev/shm/*' OR s.path GLOB '/memfd:*' OR s.path GLOB '/SYSV*'
        OR s.path GLOB '/dev/zero*'
        OR s.path GLOB '[[]anon_shmem*' THEN 'shared memory'
      WHEN s.path GLOB '/*' THEN 'files' ELSE 'others' END AS part,
    1024 * coalesce(s.rss_kb, s.private_dirty_kb + coalesce(s.private_clean_resident_kb, 0)
      + coalesce(s.shared_dirty_resident_kb, 0)
      + coalesce(s.shared_clean_resident_kb, 0)) AS resident,
    1024 * coalesce(s.swap_kb, 0) AS swap
  FROM profiler_smaps s JOIN moment m ON m.upid = s.upid AND m.ts = s.ts),
kind(part, place, is_private, meaning) AS (VALUES
  ('heap', 1, 1, 'the main heap (brk)'),
  ('malloc arenas', 2, 1, 'heaps of the C library for further threads'),
  ('anonymous', 3, 1, 'large allocations, heaps of language runtimes, mappings of no file'),
  ('stacks', 4, 0, 'of the threads'),
  ('files', 5, 0, 'code and data of programs, libraries and mapped files'),
  ('shared memory', 6, 0, 'also of other processes'),
  ('profiler', 7, 0, 'what the profiler itself keeps in the process'),
  ('others', 8, 0, 'of the kernel')),
counted AS (
  SELECT p.upid, p.ts, k.part, k.place, k.is_private, k.meaning, sum(p.resident) AS resident,
         sum(p.swap) AS swap
  FROM mapped p JOIN kind k ON k.part = p.part GROUP BY p.upid, p.ts, k.part),
whole AS MATERIALIZED (
  SELECT m.upid, m.ts,
    (SELECT coalesce(sum(h.size) FILTER (WHERE h.heap_name = 'libc.malloc'), sum(h.size))
     FROM heap_profile_allocation h
     WHERE h.upid = m.upid AND h.ts <= m.dump_ts) AS profiled,
    (SELECT max(a.ts) FROM malloc_arena a WHERE a.upid = m.upid
     AND a.ts BETWEEN m.dump_ts - 50000000 AND m.dump_ts + 50000000) AS asked,
    (SELECT sum(resident + swap) FROM counted c
     WHERE c.upid = m.upid AND c.ts = m.ts AND c.is_private) AS anonymous,
    (SELECT sum(resident) FROM counted c WHERE c.upid = m.upid AND c.ts = m.ts) AS resident,
    (SELECT sum(swap) FROM counted c WHERE c.upid = m.upid AND c.ts = m.ts) AS swap
  FROM moment m),
held AS MATERIALIZED (
  SELECT w.*, (SELECT sum(system_bytes) FROM malloc_arena a
               WHERE a.upid = w.upid AND a.ts = w.asked) AS held,
    (SELECT sum(used_bytes) FROM malloc_arena a WHERE a.upid = w.upid AND a.ts = w.asked) AS used
  FROM whole w),
line(upid, ts, layer, place, part, bytes, meaning) AS (
  SELECT m.upid, m.ts, 'profile',
         100 + row_number() OVER (PARTITION BY m.upid, m.ts ORDER BY h.heap_name), h.heap_name,
    sum(h.size), 'allocated since the profile began, and not freed'
  FROM moment m JOIN heap_profile_allocation h ON h.upid = m.upid AND h.ts <= m.dump_ts
  GROUP BY m.upid, m.ts, h.heap_name
  UNION ALL
  SELECT upid, ts, 'process', 300 + place, part, resident, 'resident: ' || meaning FROM counted
  UNION ALL
  SELECT upid, ts, 'process', 310, 'resident', resident,
         'the part of all mappings that is in memory' FROM whole
  WHERE resident IS NOT NULL
  UNION ALL
  SELECT upid, ts, 'process', 311, 'swap', swap,
         'the part of all mappings that is in swap space' FROM whole
  WHERE swap > 0
  UNION ALL
  SELECT upid, ts, 'allocator', 200, 'in use', used,
         'by the allocator''s own count; caches of threads count as used'
  FROM held WHERE held IS NOT NULL
  UNION ALL
  SELECT upid, ts, 'allocator', 201, 'free', held - used, 'kept for later allocations' FROM held
  WHERE held IS NOT NULL
  UNION ALL
  SELECT upid, ts, 'allocator', 202, 'held', held, 'all that it has from the kernel' FROM held
  WHERE held IS NOT NULL
  UNION ALL
  SELECT upid, ts, 'difference', 400, 'not profiled', used - profiled,
    'in use and not in the profile: allocated before it began, caches of threads; '
    || 'negative: allocated after the '
    || 'allocator''s count, or the sampling error'
  FROM held WHERE held IS NOT NULL
  UNION ALL
  SELECT upid, ts, 'difference', 401, 'fragmentation', held - used,
         'free in the allocator: between what is in use, and at the end'
  FROM held WHERE held IS NOT NULL
  UNION ALL
  SELECT upid, ts, 'difference', 402, 'other mappings', anonymous - held,
    'of heap, arenas and anonymous memory: what the allocator does not hold; '
    || 'negative: what it holds and nobody has touched'
  FROM held WHERE held IS NOT NULL AND anonymous IS NOT NULL
  UNION ALL
  SELECT upid, ts, 'difference', 403, 'not in the profile', anonymous - profiled,
    'of heap, arenas and anonymous memory: allocated before the profile began, '
    || 'free in the allocator (fragmentation, caches), '
    || 'and mappings that are not the allocator''s; '
    || 'negative: allocated and never touched, or less than the sampling error'
  FROM held WHERE anonymous IS NOT NULL AND held IS NULL)
SELECT l.upid, p.pid, p.name AS process_name, CAST(l.ts AS INTEGER) AS ts,
  CAST(l.layer AS TEXT) AS layer, CAST(l.part AS TEXT) AS part, CAST(l.bytes AS INTEGER) AS bytes,
  CAST(l.meaning AS TEXT) AS meaning
FROM line l JOIN process p ON p.upid = l.upid ORDER BY l.upid, l.ts, l.place;
