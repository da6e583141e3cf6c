-- SPDX-License-Identifier: Apache-2.0
--
-- Lists of expressions in macros.

-- Returns an item of a list unchanged.
CREATE PERFETTO MACRO __metasql_item(item Expr) RETURNS Expr AS $item;

-- Takes the parentheses off a list: (a, b) becomes a, b. For places where SQL wants a bare list, as
-- GROUP BY and PARTITION BY do.
CREATE PERFETTO MACRO metasql_unparenthesize_exprlist(
    -- List of expressions, in parentheses.
    expr ExprList
)
RETURNS UnparenExprList AS __intrinsic_token_apply!(__metasql_item, $expr);
