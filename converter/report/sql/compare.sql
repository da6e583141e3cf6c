-- SPDX-License-Identifier: Apache-2.0
--
-- The comparison of two traces as text. The page compares the same rows by a script.

-- @setup
-- The key figures of both traces: 1 is A, 2 is B. The table is empty if nothing is compared.
CREATE TEMP TABLE IF NOT EXISTS report_compared(which, name, value, unit);

-- @compare_Key_figures
WITH
form(unit, part, shape) AS (
  VALUES ('ns', 1e6, '%,.1f ms'), ('bytes', 1048576.0, '%,.1f MiB'), ('times', 1, '%,d')),
figure AS (
  SELECT min(rowid) AS place, name, unit, max(iif(which = 1, value, NULL)) AS a,
    max(iif(which = 2, value, NULL)) AS b
  FROM report_compared GROUP BY name)
SELECT name AS figure, iif(a IS NULL, '-', printf(shape, a / part)) AS A,
  iif(b IS NULL, '-', printf(shape, b / part)) AS B,
  CASE WHEN a IS NULL OR b IS NULL THEN '-'
    ELSE iif(b > a, '+', '') || printf(shape, (b - a) / part) || iif(a = 0, '',
      CASE WHEN a = b THEN ' (0 %)'
        WHEN abs(percent) < 0.05 THEN ''
        WHEN abs(percent) < 9.95 THEN printf(' (%+g %%)', round(percent, 1))
        ELSE printf(' (%+d %%)', round(percent)) END) END
    AS "B against A"
FROM (SELECT *, (b - a) * 100.0 / abs(nullif(a, 0)) AS percent FROM figure)
JOIN form USING (unit) ORDER BY place;
