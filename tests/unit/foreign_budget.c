// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/foreign_budget.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

#define SECOND NSEC_PER_SEC

static void what_is_held_is_bounded_by_payer_and_in_all(void **state)
{
    (void)state;
    struct budget budget;
    struct err err = {0};
    budget_init(&budget,
                &(struct budget_limits){.what = "profiles", .each_max = 10, .all_max = 25});
    assert_int_equal(budget_take(&budget, 1000, 10, 0, &err), 0);
    assert_int_equal(budget_take(&budget, 1000, 1, 0, &err), -EDQUOT);
    assert_string_equal(err.text, "the limit of 10 profiles of one user is reached");
    assert_int_equal(budget_take(&budget, 1001, 10, 0, &err), 0);
    assert_int_equal(budget_take(&budget, 1002, 6, 0, &err), -EDQUOT);
    assert_string_equal(err.text, "the limit of 25 profiles of all users is reached");
    assert_int_equal(budget_held(&budget, 1002), 0);
    assert_int_equal(budget_take(&budget, 1002, 5, 0, &err), 0);
    budget_give(&budget, 1000, 10);
    assert_int_equal(budget_held(&budget, 1000), 0);
    assert_int_equal(budget_take(&budget, 1000, 10, 0, &err), 0);
    assert_int_equal(budget_take(&budget, 1000, UINT64_MAX, 0, &err), -EDQUOT);
    budget_done(&budget);
}

static void others_cannot_use_up_the_share_of_root(void **state)
{
    (void)state;
    struct budget budget;
    budget_init(&budget, &(struct budget_limits){.what = "names", .each_max = 10, .all_max = 20});
    assert_int_equal(budget_take(&budget, 1, 10, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, 2, 10, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, 0, 20, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, 0, 1, 0, NULL), -EDQUOT);
    budget_done(&budget);
}

static void a_rate_comes_back_with_time(void **state)
{
    (void)state;
    struct budget budget;
    struct err err = {0};
    nsec_t now = 100 * SECOND;
    budget_init(&budget, &(struct budget_limits){.what = "triggers",
                                                 .how = "raise --triggers",
                                                 .each_burst = 5,
                                                 .each_per_minute = 60});
    for (int i = 0; i < 5; i++)
        assert_int_equal(budget_take(&budget, 7, 1, now, &err), 0);
    assert_int_equal(budget_take(&budget, 7, 1, now, &err), -EDQUOT);
    assert_string_equal(err.text, "the limit of 60 triggers a minute of one user is reached");
    assert_string_equal(err.hint, "raise --triggers");
    assert_int_equal(budget_take(&budget, 8, 1, now, &err), 0);
    assert_int_equal(budget_take(&budget, 7, 1, now + SECOND / 2, &err), -EDQUOT);
    assert_int_equal(budget_take(&budget, 7, 1, now + SECOND, &err), 0);
    assert_int_equal(budget_take(&budget, 7, 1, now + SECOND, &err), -EDQUOT);
    assert_int_equal(budget_take(&budget, 7, 5, now + 3600 * SECOND, &err), 0);
    budget_done(&budget);
}

static void payers_beyond_the_table_share_an_account(void **state)
{
    (void)state;
    struct budget budget;
    budget_init(&budget, &(struct budget_limits){.what = "names", .each_max = 2});
    for (uint64_t payer = 1; payer <= BUDGET_PAYERS_MAX; payer++)
        assert_int_equal(budget_take(&budget, payer, 1, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, 1u << 20, 1, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, 1u << 21, 1, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, 1u << 22, 1, 0, NULL), -EDQUOT);
    assert_int_equal(budget_take(&budget, 5, 1, 0, NULL), 0); // a payer that has an account
    budget_give(&budget, 9, 1);
    for (int i = 0; i < 2; i++) // in the account that payer 9 had
        assert_int_equal(budget_take(&budget, 1u << 22, 1, 0, NULL), 0);
    assert_int_equal(budget.accounts.n, BUDGET_PAYERS_MAX);
    budget_done(&budget);
}

static void what_was_taken_from_the_shared_account_comes_back_there(void **state)
{
    (void)state;
    const uint64_t late = 1u << 20;
    struct budget budget;
    budget_init(&budget, &(struct budget_limits){.what = "names", .each_max = 2});
    for (uint64_t payer = 1; payer <= BUDGET_PAYERS_MAX; payer++)
        assert_int_equal(budget_take(&budget, payer, 1, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, late, 2, 0, NULL), 0);
    budget_give(&budget, 9, 1);
    // Although there is a place again, the payer has its limit once, not in two accounts.
    assert_int_equal(budget_take(&budget, late, 1, 0, NULL), -EDQUOT);
    budget_give(&budget, late + 1, 2); // this payer holds nothing: no change
    assert_int_equal(budget_held(&budget, late), 2);
    budget_give(&budget, late, 2);
    assert_int_equal(budget_take(&budget, late, 2, 0, NULL), 0); // now in an account of its own
    assert_int_equal(budget_take(&budget, late, 1, 0, NULL), -EDQUOT);
    budget_give(&budget, late, 2);
    assert_int_equal(budget_take(&budget, late, 1, 0, NULL), 0);
    assert_int_equal(budget_take(&budget, late + 1, 2, 0, NULL), 0);
    budget_done(&budget);
}

static void what_was_spent_already_makes_a_debt(void **state)
{
    (void)state;
    struct budget budget;
    nsec_t now = SECOND;
    budget_init(&budget, &(struct budget_limits){
                             .what = "milliseconds", .each_burst = 100, .each_per_minute = 6000});
    assert_int_equal(budget_left(&budget, 7, now), 100);
    assert_true(budget_spend(&budget, 7, 60, now));
    assert_int_equal(budget_left(&budget, 7, now), 40);
    assert_false(budget_spend(&budget, 7, 140, now));
    assert_int_equal(budget_left(&budget, 7, now + SECOND / 2), 0);
    assert_int_equal(budget_left(&budget, 7, now + 2 * SECOND), 100);
    assert_int_equal(budget_left(&budget, 8, now), 100);
    assert_true(budget_spend(&budget, 0, 1000, now));
    assert_int_equal(budget_left(&budget, 0, now), UINT64_MAX);
    budget_done(&budget);
}

static void all_payers_together_have_a_share(void **state)
{
    (void)state;
    struct budget budget;
    struct err err = {0};
    nsec_t now = 10 * SECOND;
    budget_init(&budget, &(struct budget_limits){.what = "milliseconds",
                                                 .each_burst = 100,
                                                 .each_per_minute = 6000,
                                                 .all_burst = 200,
                                                 .all_per_minute = 12000});
    for (uint64_t payer = 1; payer <= 3; payer++)
        assert_true(budget_spend(&budget, payer, 99, now));
    // Payer 1 has 1 left, but all have a debt of 97.
    assert_int_equal(budget_may_spend(&budget, 1, now, &err), -EDQUOT);
    assert_string_equal(err.text,
                        "the limit of 12000 milliseconds a minute of all users is reached");
    assert_int_equal(budget_may_spend(&budget, 0, now, &err), 0);
    budget_spend(&budget, 1, 1, now);
    assert_int_equal(budget_may_spend(&budget, 1, now, &err), -EDQUOT);
    assert_string_equal(err.text, "the limit of 6000 milliseconds a minute of one user is reached");
    // A payer that has spent nothing has a turn each second, of 5.
    for (nsec_t at = now; at < now + 3 * SECOND; at += SECOND / 4) {
        int n = 0;
        for (; budget_may_spend(&budget, 4, at, &err) == 0; n++)
            budget_spend(&budget, 4, 1, at);
        assert_int_equal(n, (at - now) % SECOND == 0 ? 5 : 0);
        budget_spend(&budget, 5, 50, at); // what comes back
    }
    // Without tokens of all for a long time, there are no turns.
    now += 3 * SECOND;
    assert_int_equal(budget_may_spend(&budget, 4, now, &err), 0);
    budget_spend(&budget, 5, 150, now);
    assert_int_equal(budget_may_spend(&budget, 4, now, &err), -EDQUOT);
    assert_int_equal(budget_may_spend(&budget, 4, now + 2 * SECOND, &err), 0);
    assert_int_equal(budget_may_spend(&budget, 5, now + 2 * SECOND, &err), -EDQUOT);
    assert_int_equal(budget_may_spend(&budget, 5, now + 60 * SECOND, &err), 0);
    budget_done(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_held_is_bounded_by_payer_and_in_all),
        cmocka_unit_test(others_cannot_use_up_the_share_of_root),
        cmocka_unit_test(a_rate_comes_back_with_time),
        cmocka_unit_test(what_was_spent_already_makes_a_debt),
        cmocka_unit_test(all_payers_together_have_a_share),
        cmocka_unit_test(payers_beyond_the_table_share_an_account),
        cmocka_unit_test(what_was_taken_from_the_shared_account_comes_back_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
