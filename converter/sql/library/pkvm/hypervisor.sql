-- SPDX-License-Identifier: Apache-2.0
--
-- The times that processors spent in pKVM, the hypervisor of Android.

-- A row for each time in the hypervisor.
CREATE PERFETTO VIEW pkvm_hypervisor_events(
  -- Slice.
  slice_id JOINID(slice.id),
  -- Processor.
  cpu JOINID(cpu.cpu),
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Event that says why the processor entered, such as host_mem_abort; NULL: not known.
  reason STRING
) AS
SELECT s.id AS slice_id, t.cpu, s.ts, s.dur, extract_arg(s.arg_set_id, 'hyp_enter_reason') AS reason
FROM slice s JOIN cpu_track t ON t.id = s.track_id
WHERE
  s.name = 'hyp' -- the name of all these slices; there is an index by name
  AND s.category = 'pkvm_hyp';
