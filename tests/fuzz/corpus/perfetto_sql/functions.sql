CREATE OR REPLACE PERFETTO FUNCTION f(n LONG, x ARGSETID(args.id)) RETURNS TABLE(y LONG) AS SELECT $n + length('$n') AS y;
CREATE PERFETTO FUNCTION g(a ANY...) RETURNS ANY DELEGATES TO max; SELECT g(1,2) FROM f(3, 4);
SELECT create_function('h(x INT)', 'INT', 'SELECT iif($x < 1, 1, h($x - 1) * 2)'); SELECT experimental_memoize('h'); SELECT h(30);
