-- SPDX-License-Identifier: Apache-2.0
--
-- The pages of files in the page cache.

-- @residency
-- The resident share of each file (percent). Files whose share changed come first, then large
-- files.
WITH
file AS (
  SELECT f.id, f.path, max(s.resident_bytes) AS most,
    max(s.resident_bytes) - min(s.resident_bytes) AS change
  FROM page_residency_file f JOIN page_residency_sample s ON s.file_id = f.id
  WHERE f.machine_id = :machine GROUP BY f.id),
chosen AS (
  SELECT id, path, row_number() OVER (ORDER BY change DESC, most DESC, path) AS place FROM file
  ORDER BY place LIMIT 40)
SELECT c.path AS series, (max(s.ts) - :start) / 1000 AS t,
  round(100.0 * s.resident_pages / nullif(s.pages, 0), 1) AS v, s.resident_bytes AS bytes
FROM chosen c JOIN page_residency_sample s ON s.file_id = c.id
GROUP BY c.place, s.ts / :bin ORDER BY c.place, s.ts;

-- @residency_table
SELECT f.path AS file, max(s.pages) * f.page_size_bytes AS size_bytes,
  min(s.resident_bytes) AS least_bytes, max(s.resident_bytes) AS most_bytes,
  (SELECT l.resident_bytes FROM page_residency_sample l
   WHERE l.file_id = f.id ORDER BY l.id DESC LIMIT 1) AS last_bytes
FROM page_residency_file f JOIN page_residency_sample s ON s.file_id = f.id
WHERE f.machine_id = :machine
GROUP BY f.id ORDER BY max(s.resident_bytes) - min(s.resident_bytes) DESC, size_bytes DESC
LIMIT 100;

-- @pages
-- Runs of resident pages of the files with most changes: from the first sample with the run (`t`)
-- to the first sample without it (`e`). If the runs are too many, the largest are kept.
WITH
file AS (
  SELECT f.id, f.path, f.page_size_bytes,
    (SELECT max(pages) FROM page_residency_sample s WHERE s.file_id = f.id) AS pages,
    (SELECT sum(end_page - start_page) FROM page_residency_change c WHERE c.file_id = f.id)
      AS change
  FROM page_residency_file f WHERE f.machine_id = :machine),
chosen AS (
  SELECT *, row_number() OVER (ORDER BY change DESC, pages DESC, path) AS place FROM file
  WHERE pages > 0 AND EXISTS (SELECT 1 FROM page_residency_span p WHERE p.file_id = file.id)
  ORDER BY place LIMIT 6),
run AS (
  SELECT c.place, c.path, c.pages, c.page_size_bytes, p.ts, p.ts + p.dur AS end_ts, p.start_page,
    p.end_page,
    row_number() OVER (PARTITION BY c.id ORDER BY p.n_pages DESC, p.dur DESC, p.id) AS rank
  FROM chosen c JOIN page_residency_span p ON p.file_id = c.id)
SELECT path AS series, pages, page_size_bytes AS page_bytes, (ts - :start) / 1000 AS t,
  (end_ts - :start) / 1000 AS e, start_page AS a, end_page AS b
FROM run WHERE rank <= 4000 ORDER BY place, ts, start_page;

-- @pins
-- The pages that pinlists name.
SELECT r.path AS series, r.start_page AS a, r.end_page AS b
FROM pin_range r JOIN page_residency_file f ON f.id = r.file_id
WHERE f.machine_id = :machine ORDER BY r.path, r.start_page LIMIT 20000;

-- @pin_coverage
-- The resident part of each pinlist (percent).
SELECT c.path AS series, (max(c.ts) - :start) / 1000 AS t, c.resident_percent AS v,
  c.pinned_pages * f.page_size_bytes AS bytes
FROM pin_coverage c JOIN page_residency_file f ON f.id = c.file_id
WHERE f.machine_id = :machine
GROUP BY c.pinlist_id, c.file_id, c.ts / :bin ORDER BY c.path, c.pinlist_id, c.ts;
