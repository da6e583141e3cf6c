// SPDX-License-Identifier: Apache-2.0
//
// The histories of pages in recordings, and the pages that are chosen.
#include "common/cleanup.h"
#include "producer/pintool/choice.h"
#include "tests/unit/unit.h"

#define MS  ((nsec_t)1000000)
#define SEC NSEC_PER_SEC

static void a_page_that_comes_back_is_read_back(void **state)
{
    (void)state;
    CLEANUP(evidence_done) struct evidence evidence = {0};
    assert_int_equal(evidence_new(10, &evidence), 0);
    evidence_added(&evidence, 0, 3);
    evidence_deleted(&evidence, 1 * SEC, 3);
    evidence_added(&evidence, 3 * SEC, 3);
    evidence_deleted(&evidence, 4 * SEC, 3);
    evidence_deleted(&evidence, 5 * SEC, 7); // was there from the start
    evidence_end(&evidence);
    const struct page_evidence *page = &evidence.pages.items[3];
    assert_int_equal(page->n_evicted, 2);
    assert_int_equal(page->n_read_back, 1);
    assert_float_equal(page->reads, 1, 1e-6);
    assert_float_equal(page->gone_s, 3, 1e-3);
    assert_int_equal(evidence.pages.items[7].n_evicted, 1);
    assert_float_equal(evidence_seconds(&evidence), 5, 1e-9);
    assert_float_equal(evidence_reads_within(&evidence, 4), 1, 1e-9);
    assert_float_equal(evidence_reads_within(&evidence, 1), 0, 1e-9);
}

static void read_ahead_is_one_read(void **state)
{
    (void)state;
    CLEANUP(evidence_done) struct evidence evidence = {0};
    assert_int_equal(evidence_new(64, &evidence), 0);
    evidence_went(&evidence, 0, 0, 64);
    // Folios of 4, 4, 8 and at least 8 pages.
    static const uint64_t folios[] = {0, 4, 8, 16};
    for (unsigned i = 0; i < 4; i++)
        evidence_added(&evidence, SEC + 500 * i, folios[i]);
    evidence_added(&evidence, 2 * SEC, 40); // another read
    evidence_end(&evidence);
    assert_float_equal(evidence.n_reads, 2, 1e-9);
    for (unsigned i = 0; i < 24; i++) {
        assert_int_equal(evidence.pages.items[i].n_read_back, 1);
        assert_float_equal(evidence.pages.items[i].reads, 1.0 / 24, 1e-6);
    }
    assert_int_equal(evidence.pages.items[24].n_read_back, 0);
    assert_float_equal(evidence.pages.items[40].reads, 1, 1e-6);

    // A folio is evicted as a whole.
    evidence_deleted(&evidence, 3 * SEC, 8);
    for (unsigned i = 8; i < 16; i++)
        assert_int_equal(evidence.pages.items[i].n_evicted, 2);
    assert_int_equal(evidence.pages.items[16].n_evicted, 1);
}

static void faults_one_after_the_other_are_reads_of_their_own(void **state)
{
    (void)state;
    CLEANUP(evidence_done) struct evidence evidence = {0};
    assert_int_equal(evidence_new(8, &evidence), 0);
    evidence_went(&evidence, 0, 0, 8);
    for (unsigned i = 0; i < 8; i++)
        evidence_added(&evidence, SEC + 3000 * i, i);
    evidence_end(&evidence);
    assert_float_equal(evidence.n_reads, 8, 1e-9);
}

// Pages 0..9 go often and come back soon, 10..19 go seldom and come back late, 20..29 stay, and
// 30..39 go for ever.
static void feed_a_mixture(struct evidence *evidence)
{
    assert_int_equal(evidence_new(50, evidence), 0);
    for (uint64_t i = 0; i < 40; i++)
        evidence_added(evidence, (nsec_t)i * MS / 10, i);
    for (nsec_t second = 1; second <= 20; second++) {
        evidence_went(evidence, second * SEC, 0, 10);
        if (second == 2)
            evidence_went(evidence, second * SEC, 30, 40);
        if (second % 10 == 3)
            evidence_went(evidence, second * SEC, 10, 20);
        for (uint64_t i = 0; i < 10; i++)
            evidence_came(evidence, second * SEC + 100 * MS, i, i + 1);
        for (uint64_t i = 10; i < 20 && second % 10 == 2 && second > 10; i++)
            evidence_came(evidence, second * SEC, i, i + 1);
    }
    evidence_end(evidence);
}

static void the_most_worthy_are_chosen(void **state)
{
    (void)state;
    CLEANUP(evidence_done) struct evidence evidence = {0};
    CLEANUP(page_ranges_done) struct page_ranges chosen = {0};
    feed_a_mixture(&evidence);
    assert_int_equal(choice_make(&evidence, 10, &chosen), 0);
    assert_int_equal(chosen.n, 1);
    assert_int_equal(chosen.items[0].start, 0);
    assert_int_equal(chosen.items[0].end, 10);
    struct choice_sum sum = choice_sum(&evidence, &chosen.items[0]);
    assert_int_equal(sum.n_read_back, 200);
    assert_float_equal(sum.reads, 200, 1e-3);

    // The choice has at most `n` pages, and no page that went and was not read again.
    for (uint64_t n = 0; n < 60; n++) {
        assert_int_equal(choice_make(&evidence, n, &chosen), 0);
        assert_true(page_ranges_count(&chosen) <= n);
        vec_foreach(&chosen, range)
            assert_true(range->end <= 30);
    }
    assert_int_equal(chosen.items[chosen.n - 1].end, 30); // pages that stay are chosen last
}

// A page that is gone nearly all the time and came back once is worth less than its room, if other
// pages come back as soon as they are gone.
static void room_has_its_price(void **state)
{
    (void)state;
    CLEANUP(evidence_done) struct evidence evidence = {0};
    CLEANUP(page_ranges_done) struct page_ranges chosen = {0};
    assert_int_equal(evidence_new(4, &evidence), 0);
    evidence_went(&evidence, 0, 3, 4);
    for (nsec_t i = 0; i < 100; i++) {
        evidence_went(&evidence, i * 100 * MS, 0, 1);
        evidence_came(&evidence, i * 100 * MS + MS, 0, 1);
    }
    evidence_came(&evidence, 10 * SEC, 3, 4);
    evidence_end(&evidence);
    assert_int_equal(choice_make(&evidence, 4, &chosen), 0);
    assert_int_equal(chosen.n, 1);
    assert_int_equal(chosen.items[0].end, 1);
}

static void without_evidence_nothing_is_chosen(void **state)
{
    (void)state;
    CLEANUP(evidence_done) struct evidence evidence = {0};
    CLEANUP(page_ranges_done) struct page_ranges chosen = {0};
    assert_int_equal(evidence_new(0, &evidence), 0);
    evidence_added(&evidence, INT64_MIN, UINT64_MAX);
    evidence_deleted(&evidence, INT64_MAX, UINT64_MAX);
    evidence_came(&evidence, 0, UINT64_MAX - 1, UINT64_MAX);
    evidence_end(&evidence);
    assert_int_equal(choice_make(&evidence, 100, &chosen), 0);
    assert_int_equal(chosen.n, 0);
    assert_int_equal(evidence_new(EVIDENCE_PAGES_MAX + 1, &evidence), -EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_that_comes_back_is_read_back),
        cmocka_unit_test(read_ahead_is_one_read),
        cmocka_unit_test(faults_one_after_the_other_are_reads_of_their_own),
        cmocka_unit_test(the_most_worthy_are_chosen),
        cmocka_unit_test(room_has_its_price),
        cmocka_unit_test(without_evidence_nothing_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
