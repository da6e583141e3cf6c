CREATE PERFETTO MACRO m(a Expr, b Expr) RETURNS Expr AS $a + $b; /* c */ SELECT m!(m!(1, 2), 'x;,(' || "y") , __intrinsic_token_apply!(m, (1, 2), (3, 4));
DROP PERFETTO MACRO m; SELECT __intrinsic_stringify!(a 'b' [c] `d` $e ?1);
