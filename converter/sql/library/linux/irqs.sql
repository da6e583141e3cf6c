-- SPDX-License-Identifier: Apache-2.0
--
-- Interrupts, as slices of the processors that handled them.

-- Interrupts of devices.
CREATE PERFETTO VIEW linux_hard_irqs(
  -- Start (ns).
  ts TIMESTAMP,
  -- How long the interrupt was handled (ns).
  dur DURATION,
  -- Name of the interrupt.
  name STRING,
  -- Slice.
  id JOINID(slice.id),
  -- Slice of the interrupt that this one interrupted.
  parent_id JOINID(slice.id)
) AS
SELECT s.ts, s.dur, s.name, s.id, s.parent_id
FROM track t JOIN slice s ON s.track_id = t.id WHERE t.type = 'cpu_irq';

-- Work that the kernel put off from interrupts.
CREATE PERFETTO VIEW linux_soft_irqs(
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Name of the kind of work.
  name STRING,
  -- Slice.
  id JOINID(slice.id)
) AS
SELECT s.ts, s.dur, s.name, s.id
FROM track t JOIN slice s ON s.track_id = t.id WHERE t.type = 'cpu_softirq';

-- Interrupts of devices, and work that the kernel put off from interrupts.
CREATE PERFETTO VIEW linux_irqs(
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Name.
  name STRING,
  -- Slice.
  id JOINID(slice.id),
  -- Slice of the interrupt that this one interrupted.
  parent_id JOINID(slice.id),
  -- 1: work that was put off; 0: an interrupt of a device.
  is_soft_irq BOOL
) AS
SELECT s.ts, s.dur, s.name, s.id, iif(t.type = 'cpu_irq', s.parent_id, NULL) AS parent_id,
  t.type = 'cpu_softirq' AS is_soft_irq
FROM track t JOIN slice s ON s.track_id = t.id WHERE t.type IN ('cpu_irq', 'cpu_softirq');
