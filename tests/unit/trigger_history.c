// SPDX-License-Identifier: Apache-2.0
#include "producer/service/triggers/trigger_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/unit/unit.h"

#define HOUR (3600 * NSEC_PER_SEC)
#define REAL (1700000000 * NSEC_PER_SEC)

static const struct trigger_now start = {.boot = 100 * HOUR, .real = REAL};

static struct trigger_now later(struct trigger_now now, nsec_t time)
{
    return (struct trigger_now){.boot = now.boot + time, .real = now.real + time};
}

static void counts_by_name_for_a_day(void **state)
{
    (void)state;
    struct trigger_history h = {0};
    assert_int_equal(trigger_history_count(&h, "a", start), 0);
    assert_int_equal(trigger_history_add(&h, "a", start), 0);
    assert_int_equal(trigger_history_add(&h, "a", later(start, HOUR)), 0);
    assert_int_equal(trigger_history_add(&h, "b", later(start, HOUR)), 0);
    assert_int_equal(trigger_history_count(&h, "a", later(start, 24 * HOUR - 1)), 2);
    assert_int_equal(trigger_history_count(&h, "b", later(start, 24 * HOUR - 1)), 1);
    assert_int_equal(trigger_history_count(&h, "a", later(start, 24 * HOUR)), 1);
    assert_int_equal(trigger_history_count(&h, "a", later(start, 25 * HOUR)), 0);
    assert_int_equal(h.times.n, 0);
    trigger_history_done(&h);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    struct trigger_history h = {0};
    for (int i = 0; i < 2 * TRIGGER_HISTORY_MAX; i++)
        assert_int_equal(trigger_history_add(&h, "a", later(start, i)), 0);
    assert_int_equal(h.times.n, TRIGGER_HISTORY_MAX);
    assert_int_equal(h.times.items[TRIGGER_HISTORY_MAX - 1].time,
                     start.boot + 2 * TRIGGER_HISTORY_MAX - 1);
    trigger_history_done(&h);
}

static int save(const struct trigger_history *history, const char *dir, struct trigger_now now)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    assert_int_equal(trigger_history_text(history, now, &text), 0);
    return trigger_history_write(dir, &text);
}

static void file_survives_a_boot(void **state)
{
    (void)state;
    char dir[] = "/tmp/mmtrace-unit-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/trigger_history", dir);
    struct trigger_history before = {0}, after = {0};
    assert_int_equal(trigger_history_load(&before, dir, start, NULL), 0);
    trigger_history_add(&before, "a", start);
    trigger_history_add(&before, "a", later(start, 20 * HOUR));
    assert_int_equal(save(&before, dir, later(start, 20 * HOUR)), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    // The machine has booted since: boot time begins at 0 again, and both triggers lie before the
    // boot.
    struct trigger_now now = {.boot = HOUR, .real = REAL + 23 * HOUR};
    assert_int_equal(trigger_history_load(&after, dir, now, NULL), 0);
    assert_int_equal(trigger_history_count(&after, "a", now), 2);
    assert_int_equal(trigger_history_count(&after, "a", later(now, HOUR)), 1);
    // A second save keeps the moments of the triggers.
    assert_int_equal(save(&after, dir, later(now, HOUR)), 0);
    trigger_history_done(&after);
    assert_int_equal(trigger_history_load(&after, dir, later(now, HOUR), NULL), 0);
    assert_int_equal(trigger_history_count(&after, "a", later(now, 21 * HOUR - 1)), 1);
    assert_int_equal(trigger_history_count(&after, "a", later(now, 21 * HOUR)), 0);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(save(&before, dir, start), -ENOENT);
    trigger_history_done(&before);
    trigger_history_done(&after);
}

static void garbage_is_skipped(void **state)
{
    (void)state;
    static const char text[] = "# header\n"
                               "\n"
                               "1700000000000000000\n"
                               "1700000000000000000 \n"
                               " 0x1\n"
                               "-5 0x1\n"
                               "99999999999999999999999 0x1\n"
                               "1700000000000000000 0x1 more\n"
                               "1700000000000000000 name\n"
                               "1700000000000000000000000000000000000000000000000000000000000 0x1\n"
                               "1699999999000000000 0x1\n" // good
                               "1600000000000000000 0x1\n" // long ago
                               "1800000000000000000 0x2\n" // in the future: now
                               "9223372036854775808 0x1\n"
                               "1700000000000000000 0x3"; // a whole line without newline
    struct trigger_history h = {0};
    assert_int_equal(trigger_history_parse(&h, text, sizeof(text) - 1, start), 0);
    assert_int_equal(h.times.n, 3);
    assert_int_equal(h.times.items[0].time, start.boot - NSEC_PER_SEC);
    assert_int_equal(h.times.items[1].time, start.boot);
    assert_int_equal(h.times.items[1].name, 2);
    assert_int_equal(h.times.items[2].name, 3);
    trigger_history_done(&h);
    assert_int_equal(trigger_history_parse(&h, "1\0002 3\n", 6, start), 0);
    assert_int_equal(trigger_history_parse(&h, "", 0, start), 0);
    assert_int_equal(h.times.n, 0);
    trigger_history_done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_by_name_for_a_day),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(file_survives_a_boot),
        cmocka_unit_test(garbage_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
