-- SPDX-License-Identifier: Apache-2.0
--
-- Stacks of slices: slices with the same categories and names, from the outermost slice down, have
-- the same number.

INCLUDE PERFETTO MODULE slices.hierarchy;

-- The number of each slice's stack: the hash of the hashes of the slices around it, the outermost
-- first, and of its own hash, with | between.
CREATE PERFETTO TABLE _slice_stack(
    -- Slice.
    id JOINID(slice.id),
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Stack with the slice on top.
    stack_id LONG,
    -- Stack around the slice; 0: none.
    parent_stack_id LONG
) AS
WITH RECURSIVE named AS MATERIALIZED (
    SELECT id, parent_id, hash(ifnull(category, '') || '|' || name) AS own FROM slice
),
stack(id, parent_id, around, own, parent_stack_id) AS (
    SELECT id, parent_id, '', own, 0 FROM named WHERE parent_id IS NULL
    UNION ALL
    SELECT n.id, n.parent_id, stack.around || '|' || stack.own, n.own,
           hash(stack.own || stack.around)
    FROM stack JOIN named n ON n.parent_id = stack.id
)
SELECT id, parent_id, hash(own || around) AS stack_id, parent_stack_id FROM stack ORDER BY id;

CREATE PERFETTO INDEX _slice_stack_by_id ON _slice_stack(id);
CREATE PERFETTO INDEX _slice_stack_by_parent ON _slice_stack(parent_id);
CREATE PERFETTO INDEX _slice_stack_by_stack ON _slice_stack(stack_id);

-- All slices, with the numbers of their stacks.
CREATE PERFETTO VIEW slice_with_stack_id(
    -- Slice.
    id ID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Track.
    track_id JOINID(track.id),
    -- Category.
    category STRING,
    -- Name.
    name STRING,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID,
    -- Start on the thread's clock of processor time (ns).
    thread_ts TIMESTAMP,
    -- Processor time of the thread in the slice (ns).
    thread_dur LONG,
    -- Instructions that the thread had executed at the start.
    thread_instruction_count LONG,
    -- Instructions that the thread executed in the slice.
    thread_instruction_delta LONG,
    -- Stack with the slice on top. Equal stacks have equal numbers, which mean nothing else.
    stack_id LONG,
    -- Stack around the slice; 0: none.
    parent_stack_id LONG
) AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       s.thread_ts, s.thread_dur, s.thread_instruction_count, s.thread_instruction_delta,
       stack.stack_id, stack.parent_stack_id
FROM slice s JOIN _slice_stack stack ON stack.id = s.id;

-- The slices that have a stack, and those around them. Sorted by ts.
CREATE PERFETTO FUNCTION ancestor_slice_by_stack(
    -- Stack, see slice_with_stack_id.
    stack_hash LONG
)
RETURNS TABLE(
    -- Slice.
    id JOINID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Track.
    track_id JOINID(track.id),
    -- Category.
    category STRING,
    -- Name.
    name STRING,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID,
    -- Start on the thread's clock of processor time (ns).
    thread_ts TIMESTAMP,
    -- Processor time of the thread in the slice (ns).
    thread_dur LONG
) AS
WITH RECURSIVE found(id) AS (
    SELECT id FROM _slice_stack WHERE stack_id = $stack_hash
    UNION
    SELECT s.parent_id FROM found JOIN _slice_stack s ON s.id = found.id
    WHERE s.parent_id IS NOT NULL
)
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       s.thread_ts, s.thread_dur
FROM found JOIN slice s ON s.id = found.id
ORDER BY s.ts;

-- The slices that have a stack, and those inside them. Sorted by ts.
CREATE PERFETTO FUNCTION descendant_slice_by_stack(
    -- Stack, see slice_with_stack_id.
    stack_hash LONG
)
RETURNS TABLE(
    -- Slice.
    id JOINID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Track.
    track_id JOINID(track.id),
    -- Category.
    category STRING,
    -- Name.
    name STRING,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID,
    -- Start on the thread's clock of processor time (ns).
    thread_ts TIMESTAMP,
    -- Processor time of the thread in the slice (ns).
    thread_dur LONG
) AS
WITH RECURSIVE found(id) AS (
    SELECT id FROM _slice_stack WHERE stack_id = $stack_hash
    UNION
    SELECT s.id FROM found JOIN _slice_stack s ON s.parent_id = found.id
)
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       s.thread_ts, s.thread_dur
FROM found JOIN slice s ON s.id = found.id
ORDER BY s.ts;
