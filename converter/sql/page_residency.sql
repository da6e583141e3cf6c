-- SPDX-License-Identifier: Apache-2.0
--
-- Views of page residency: by pages, over time, and the changes. Pages count from 0; *_bytes are
-- bytes, times are nanoseconds. Perfetto does not have these views.

-- The runs of resident pages of every exact sample.
--   sample_id: Sample that shows the run.
--   start_page: First page.
--   end_page: Page after the last.
--   n_pages: Pages.
CREATE VIEW page_residency_range AS
SELECT s.id AS sample_id, s.file_id, s.ts, r.start_page, r.end_page,
  CAST(r.n_pages AS INTEGER) AS n_pages
FROM page_residency_sample s
JOIN page_residency_span r ON r.file_id = s.file_id AND r.last_sample_id >= s.id
  AND r.first_sample_id <= s.id
WHERE s.detail = 'exact';

-- The resident pages of each file, from one sample to the next.
--   sample_id: Sample.
--   dur: Until the next sample of the file, or the end of the file or of its trace (ns).
--   path: File.
--   size_bytes: Size of the file in whole pages (bytes).
--   resident_bytes: Resident pages (bytes).
--   resident_percent: Share of the pages that were resident.
--   dirty_bytes: Resident pages that are not written to the disk yet (bytes).
--   evicted_bytes: Pages that were resident before and were evicted (bytes).
CREATE VIEW page_residency_over_time AS
SELECT s.id AS sample_id, s.ts,
  CAST(coalesce(lead(s.ts) OVER (PARTITION BY s.file_id, f.path ORDER BY s.id), f.gone_ts,
    (SELECT b.end_ts FROM machine_bounds b WHERE b.machine_id = f.machine_id),
    (SELECT end_ts FROM trace_bounds)) - s.ts AS INTEGER) AS dur,
  s.file_id, f.path, s.detail, CAST(s.pages * f.page_size_bytes AS INTEGER) AS size_bytes,
  s.resident_bytes,
  CAST(round(100.0 * s.resident_pages / nullif(s.pages, 0), 1) AS REAL) AS resident_percent,
  CAST(s.dirty_pages * f.page_size_bytes AS INTEGER) AS dirty_bytes,
  CAST(s.evicted_pages * f.page_size_bytes AS INTEGER) AS evicted_bytes
FROM page_residency_sample s JOIN page_residency_file f ON f.id = s.file_id;

-- The pages that came in and went out between two samples, and their place in the file.
--   path: File.
--   direction: in or out.
--   n_pages: Pages.
--   size_bytes: Size of the pages (bytes).
--   start_byte: First byte in the file.
--   end_byte: Byte after the last.
CREATE VIEW page_residency_changes AS
SELECT c.ts, f.path, CAST(CASE c.came WHEN 1 THEN 'in' ELSE 'out' END AS TEXT) AS direction,
  CAST(c.n_pages AS INTEGER) AS n_pages,
  CAST(c.n_pages * f.page_size_bytes AS INTEGER) AS size_bytes,
  CAST(c.start_page * f.page_size_bytes AS INTEGER) AS start_byte,
  CAST(c.end_page * f.page_size_bytes AS INTEGER) AS end_byte, c.file_id, c.sample_id
FROM page_residency_change c JOIN page_residency_file f ON f.id = c.file_id;
