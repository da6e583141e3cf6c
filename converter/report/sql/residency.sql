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
  round(100.0 * s.resident_pages / nullif(s.pages, 0), 2) AS v, s.resident_bytes AS bytes
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
-- to the first sample without it (`e`). A run of the last sample has no end. The file was watched
-- from `first` to `gone`, or to the end of the trace. If the runs are too many, the largest are
-- kept.
WITH
file AS (
  SELECT f.id, f.path, f.page_size_bytes, f.first_ts, f.gone_ts,
    (SELECT max(pages) FROM page_residency_sample s WHERE s.file_id = f.id) AS pages,
    (SELECT sum(end_page - start_page) FROM page_residency_change c WHERE c.file_id = f.id)
      AS change
  FROM page_residency_file f WHERE f.machine_id = :machine),
chosen AS (
  SELECT *, row_number() OVER (ORDER BY change DESC, pages DESC, path) AS place FROM file
  WHERE pages > 0 AND EXISTS (SELECT 1 FROM page_residency_span p WHERE p.file_id = file.id)
  ORDER BY place LIMIT 6),
run AS (
  SELECT c.place, c.path, c.pages, c.page_size_bytes, c.first_ts, c.gone_ts, p.ts, p.start_page,
    p.end_page,
    iif(c.gone_ts IS NULL AND NOT EXISTS (SELECT 1 FROM page_residency_sample s
      WHERE s.file_id = c.id AND s.id > p.last_sample_id AND s.ts >= p.ts + p.dur),
      NULL, p.ts + p.dur) AS end_ts,
    row_number() OVER (PARTITION BY c.id ORDER BY p.n_pages DESC, p.dur DESC, p.id) AS rank
  FROM chosen c JOIN page_residency_span p ON p.file_id = c.id)
SELECT path AS series, pages, page_size_bytes AS page_bytes, (first_ts - :start) / 1000 AS first,
  (gone_ts - :start) / 1000 AS gone, (ts - :start) / 1000 AS t, (end_ts - :start) / 1000 AS e,
  start_page AS a, end_page AS b
FROM run WHERE rank <= 4000 ORDER BY place, ts, start_page;

-- @pins
-- The pages that pinlists name.
SELECT r.path AS series, r.start_page AS a, r.end_page AS b
FROM pin_range r JOIN page_residency_file f ON f.id = r.file_id
WHERE f.machine_id = :machine ORDER BY r.path, r.start_page LIMIT 20000;

-- @pin_coverage
-- The resident part of each pinlist (percent). A bin has its least value. Before a bin without
-- values its last value follows, which the chart holds.
WITH
reading AS MATERIALIZED (
  SELECT c.path, c.pinlist_id, c.file_id, c.ts / :bin AS bin, c.ts, c.resident_percent AS value
  FROM pin_coverage c JOIN page_residency_file f ON f.id = c.file_id
  WHERE f.machine_id = :machine),
last AS (
  SELECT path, pinlist_id, file_id, bin, max(ts) AS ts, value,
    lead(bin) OVER (PARTITION BY pinlist_id, file_id ORDER BY bin) AS next_bin
  FROM reading GROUP BY pinlist_id, file_id, bin),
row AS (
  SELECT path, pinlist_id, ts, min(value) AS value FROM reading
  GROUP BY pinlist_id, file_id, bin
  UNION
  SELECT path, pinlist_id, ts, value FROM last WHERE next_bin IS NOT bin + 1)
SELECT path AS series, (ts - :start) / 1000 AS t, value AS v FROM row
ORDER BY path, pinlist_id, ts;
