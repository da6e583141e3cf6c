-- SPDX-License-Identifier: Apache-2.0
--
-- CPU samples as a profile for profiler.firefox.com (the "processed" format, version 48).

-- Frames of the call sites of a thread's samples, callers included. A frame with inlined functions
-- has a row for each function. The numbers stack, frame and func count from 0 within a thread. The
-- other columns are utid, callsite_id, parent_id, name, inline_depth and is_innermost.
CREATE PERFETTO TABLE _firefox_stack AS
WITH RECURSIVE
  site(utid, id) AS (
    SELECT utid, callsite_id FROM perf_sample WHERE callsite_id IS NOT NULL
    UNION
    SELECT s.utid, c.parent_id FROM site s JOIN stack_profile_callsite c ON c.id = s.id
    WHERE c.parent_id IS NOT NULL
  ),
  inlined AS MATERIALIZED (
    SELECT symbol_set_id, name, count(*) OVER (PARTITION BY symbol_set_id) - 1 AS last,
      row_number() OVER (PARTITION BY symbol_set_id ORDER BY id DESC) - 1 AS depth
    FROM stack_profile_symbol
  ),
  line AS (
    SELECT s.utid, c.id, c.parent_id, c.frame_id, coalesce(i.name, f.name, '') AS name,
      ifnull(i.depth, 0) AS depth, ifnull(i.last, 0) AS last
    FROM site s
    JOIN stack_profile_callsite c ON c.id = s.id
    JOIN stack_profile_frame f ON f.id = c.frame_id
    LEFT JOIN inlined i ON i.symbol_set_id = f.symbol_set_id
  )
SELECT utid, id AS callsite_id, parent_id, name, depth AS inline_depth,
  depth = last AS is_innermost,
  dense_rank() OVER (PARTITION BY utid ORDER BY id, depth) - 1 AS stack,
  dense_rank() OVER (PARTITION BY utid ORDER BY frame_id, depth) - 1 AS frame,
  dense_rank() OVER (PARTITION BY utid ORDER BY name) - 1 AS func
FROM line ORDER BY utid, id, depth;

CREATE PERFETTO INDEX _firefox_stack_site ON _firefox_stack(utid, callsite_id, inline_depth);

-- The samples of a thread.
CREATE PERFETTO FUNCTION _firefox_samples(
  -- Thread.
  utid LONG
)
RETURNS STRING AS
SELECT json_object('stack', json_group_array(k.stack ORDER BY s.id),
  'time', json_group_array(s.ts ORDER BY s.id), 'weight', NULL, 'weightType', 'samples',
  'length', count(*))
FROM perf_sample s
JOIN _firefox_stack k ON k.utid = s.utid AND k.callsite_id = s.callsite_id AND k.is_innermost
WHERE s.utid = $utid;

-- The stacks of a thread: each is a frame and the stack before the frame.
CREATE PERFETTO FUNCTION _firefox_stacks(
  -- Thread.
  utid LONG
)
RETURNS STRING AS
WITH own AS (
  SELECT k.stack, k.frame, (
      SELECT p.stack FROM _firefox_stack p
      WHERE p.utid = k.utid AND iif(k.inline_depth = 0,
        p.callsite_id = k.parent_id AND p.is_innermost,
        p.callsite_id = k.callsite_id AND p.inline_depth = k.inline_depth - 1)
    ) AS prefix
  FROM _firefox_stack k WHERE k.utid = $utid
)
SELECT json_object('frame', json_group_array(frame ORDER BY stack),
  'category', json_group_array(0), 'subcategory', json_group_array(0),
  'prefix', json_group_array(prefix ORDER BY stack), 'length', count(*))
FROM own;

-- The frames of a thread.
CREATE PERFETTO FUNCTION _firefox_frames(
  -- Thread.
  utid LONG
)
RETURNS STRING AS
WITH own AS (SELECT DISTINCT frame, inline_depth, func FROM _firefox_stack WHERE utid = $utid)
SELECT json_object('address', json_group_array(-1),
  'inlineDepth', json_group_array(inline_depth ORDER BY frame), 'category', json_group_array(0),
  'subcategory', json_group_array(0), 'func', json_group_array(func ORDER BY frame),
  'nativeSymbol', json_group_array(NULL), 'innerWindowID', json_group_array(NULL),
  'implementation', json_group_array(NULL), 'line', json_group_array(NULL),
  'column', json_group_array(NULL), 'length', count(*))
FROM own;

-- The functions of a thread. The text of a function has the same number as the function.
CREATE PERFETTO FUNCTION _firefox_functions(
  -- Thread.
  utid LONG
)
RETURNS STRING AS
WITH own AS (SELECT DISTINCT func FROM _firefox_stack WHERE utid = $utid)
SELECT json_object('name', json_group_array(func ORDER BY func), 'isJS', json_group_array(0),
  'relevantForJS', json_group_array(0), 'resource', json_group_array(-1),
  'fileName', json_group_array(NULL), 'lineNumber', json_group_array(NULL),
  'columnNumber', json_group_array(NULL), 'length', count(*))
FROM own;

-- The names of the functions of a thread.
CREATE PERFETTO FUNCTION _firefox_texts(
  -- Thread.
  utid LONG
)
RETURNS STRING AS
WITH own AS (SELECT DISTINCT func, name FROM _firefox_stack WHERE utid = $utid)
SELECT json_group_array(name ORDER BY func) FROM own;

-- One thread.
CREATE PERFETTO FUNCTION _firefox_thread(
  -- Thread.
  utid LONG
)
RETURNS STRING AS
SELECT json_object('processType', 'default', 'name', ifnull(t.name, ''), 'isMainThread', 0,
  'pid', ifnull(p.pid, 0), 'tid', ifnull(t.tid, 0),
  'samples', json(_firefox_samples(t.utid)),
  'markers', json_object('data', json_array(), 'name', json_array(), 'startTime', json_array(),
    'endTime', json_array(), 'phase', json_array(), 'category', json_array(), 'length', 0),
  'stackTable', json(_firefox_stacks(t.utid)), 'frameTable', json(_firefox_frames(t.utid)),
  'stringArray', json(_firefox_texts(t.utid)), 'funcTable', json(_firefox_functions(t.utid)),
  'resourceTable', json_object('length', 0, 'lib', json_array(), 'name', json_array(),
    'host', json_array(), 'type', json_array()),
  'nativeSymbols', json_object('libIndex', json_array(), 'address', json_array(),
    'name', json_array(), 'functionSize', json_array(), 'length', 0))
FROM thread t JOIN process p USING (upid) WHERE t.utid = $utid;

-- All CPU samples of the trace as a profile, a JSON text. Times are those of the trace (ns).
CREATE PERFETTO FUNCTION export_to_firefox_profile()
-- The profile.
RETURNS STRING AS
SELECT json_object(
  'meta', json_object('interval', 1, 'startTime', 0, 'processType', 0,
    'categories', json_array(json_object('name', 'Other', 'color', 'grey',
      'subcategories', json_array('Other'))),
    'product', 'Perfetto', 'stackwalk', 1, 'version', 29, 'preprocessedProfileVersion', 48,
    'markerSchema', json_array(),
    'sampleUnits', json_object('time', 'ms', 'eventDelay', 'ms', 'threadCPUDelta', 'µs')),
  'libs', json_array(), 'pages', NULL, 'counters', NULL, 'profilerOverhead', NULL,
  'threads', (SELECT json_group_array(json(_firefox_thread(utid)) ORDER BY utid) FROM thread
              WHERE upid IS NOT NULL),
  'profilingLog', NULL, 'profileGatheringLog', NULL);
