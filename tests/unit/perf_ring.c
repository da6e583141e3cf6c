// SPDX-License-Identifier: Apache-2.0
//
// Records of the kernel's perf rings, byte by byte, and their order over several rings.
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "producer/sources/perf/perf_ring.h"
#include "tests/unit/unit.h"

#define RING_BYTES 4096

static const struct perf_layout plain = {.n_counts = 1, .has_chain = true};

// A record that is being made.
struct made {
    uint64_t words[64];
    size_t n;
};

static void add(struct made *made, uint64_t word)
{
    made->words[made->n++] = word;
}

static void add_pair(struct made *made, uint32_t low, uint32_t high)
{
    add(made, (uint64_t)high << 32 | low);
}

static void add_text(struct made *made, const char *text)
{
    size_t size = (strlen(text) + 8) / 8 * 8;
    memset(made->words + made->n, 0, size);
    memcpy(made->words + made->n, text, strlen(text));
    made->n += size / 8;
}

static void begin(struct made *made, uint32_t type, uint16_t misc)
{
    *made = (struct made){0};
    add(made, (uint64_t)misc << 32 | type);
}

static size_t end(struct made *made)
{
    made->words[0] |= (uint64_t)(made->n * 8) << 48;
    return made->n * 8;
}

static void add_id(struct made *made, uint32_t pid, uint32_t tid, uint64_t time, uint32_t cpu)
{
    add_pair(made, pid, tid);
    add(made, time);
    add_pair(made, cpu, 0);
}

static size_t make_sample(struct made *made, uint64_t time)
{
    begin(made, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    add_id(made, 7, 8, time, 1);
    add(made, 1);  // values:
    add(made, 99); // the timebase
    add(made, 3);  // addresses:
    add(made, (uint64_t)PERF_CONTEXT_USER);
    add(made, 0x1010);
    add(made, 0x2020);
    return end(made);
}

static void a_sample_has_its_parts(void **state)
{
    (void)state;
    struct made made;
    struct perf_record record;
    size_t size = make_sample(&made, 5);
    assert_true(perf_record_read(&plain, made.words, size, &record));
    assert_int_equal(record.kind, PERF_SAMPLED);
    assert_int_equal(record.time, 5);
    assert_int_equal(record.cpu, 1);
    assert_int_equal(record.pid, 7);
    assert_int_equal(record.tid, 8);
    assert_int_equal(record.sample.mode, PERF_RECORD_MISC_USER);
    assert_int_equal(record.sample.counts[0], 99);
    assert_int_equal(record.sample.n_chain, 3);
    assert_int_equal(record.sample.chain[2], 0x2020);
}

static void a_copied_stack_has_its_used_part(void **state)
{
    (void)state;
    const struct perf_layout layout = {.n_counts = 1, .n_registers = 2};
    struct made made;
    struct perf_record record;
    begin(&made, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    add_id(&made, 7, 8, 5, 1);
    add(&made, 1);
    add(&made, 99);
    add(&made, PERF_SAMPLE_REGS_ABI_64);
    add(&made, 0x11);
    add(&made, 0x22);
    add(&made, 24); // room for the stack
    add(&made, 1);
    add(&made, 2);
    add(&made, 3);
    add(&made, 16); // bytes of the stack that are used
    size_t size = end(&made);
    assert_true(perf_record_read(&layout, made.words, size, &record));
    assert_int_equal(record.sample.registers[1], 0x22);
    assert_int_equal(record.sample.stack_size, 16);
    assert_int_equal(((const uint64_t *)record.sample.stack)[1], 2);
}

static void a_mapping_has_its_file(void **state)
{
    (void)state;
    struct made made;
    struct perf_record record;
    begin(&made, PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID);
    add_pair(&made, 7, 7);
    add(&made, 0x1000);
    add(&made, 0x2000);
    add(&made, 0x300);
    add_pair(&made, 20, 0x03020100); // a build id of 20 bytes
    add(&made, 0);
    add(&made, 0);
    add_pair(&made, 5, 2);
    add_text(&made, "/usr/bin/cat");
    add_id(&made, 7, 7, 6, 0);
    size_t size = end(&made);
    assert_true(perf_record_read(&plain, made.words, size, &record));
    assert_int_equal(record.kind, PERF_MAPPED);
    assert_int_equal(record.time, 6);
    assert_int_equal(record.mapped.start, 0x1000);
    assert_int_equal(record.mapped.end, 0x3000);
    assert_int_equal(record.mapped.file_offset, 0x300);
    assert_string_equal(record.mapped.path, "/usr/bin/cat");
    assert_int_equal(record.mapped.build_id_size, 20);
    assert_int_equal(record.mapped.build_id[1], 1);
}

static void tasks_and_losses_are_reported(void **state)
{
    (void)state;
    struct made made;
    struct perf_record record;
    begin(&made, PERF_RECORD_FORK, 0);
    add_pair(&made, 9, 7);
    add_pair(&made, 9, 7);
    add(&made, 3);
    add_id(&made, 7, 7, 3, 0);
    assert_true(perf_record_read(&plain, made.words, end(&made), &record));
    assert_int_equal(record.kind, PERF_FORKED);
    assert_int_equal(record.pid, 9);
    assert_int_equal(record.forked.parent_pid, 7);

    begin(&made, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
    add_pair(&made, 9, 9);
    add_text(&made, "cat");
    add_id(&made, 9, 9, 4, 0);
    assert_true(perf_record_read(&plain, made.words, end(&made), &record));
    assert_int_equal(record.kind, PERF_EXECUTED);
    assert_string_equal(record.named.name, "cat");

    begin(&made, PERF_RECORD_LOST, 0);
    add(&made, 1);
    add(&made, 55);
    add_id(&made, 0, 0, 5, 3);
    assert_true(perf_record_read(&plain, made.words, end(&made), &record));
    assert_int_equal(record.kind, PERF_LOST);
    assert_int_equal(record.n_lost, 55);
    assert_int_equal(record.cpu, 3);
}

// Each record that ends too early is refused, wherever it ends.
static void short_records_are_refused(void **state)
{
    (void)state;
    struct made made;
    struct perf_record record;
    size_t size = make_sample(&made, 5);
    for (size_t cut = 0; cut < size; cut += 8) {
        made.words[0] = (made.words[0] & 0xffffffffffff) | (uint64_t)cut << 48;
        assert_false(perf_record_read(&plain, made.words, cut, &record));
    }
    make_sample(&made, 5);
    made.words[6] = 1000; // more addresses than the record has
    assert_false(perf_record_read(&plain, made.words, size, &record));
}

struct fake_ring {
    _Alignas(64) uint8_t pages[4096 + RING_BYTES];
    struct perf_ring ring;
    uint8_t copy[PERF_RECORD_BYTES];
};

static void fake_init(struct fake_ring *fake, uint64_t position)
{
    struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)fake->pages;
    memset(fake, 0, sizeof(*fake));
    page->data_head = page->data_tail = position;
    fake->ring = (struct perf_ring){.pages = fake->pages,
                                    .data = fake->pages + 4096,
                                    .data_size = RING_BYTES,
                                    .copy = fake->copy};
}

static void fake_add(struct fake_ring *fake, const struct made *made, size_t size)
{
    struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)fake->pages;
    for (size_t i = 0; i < size; i++)
        fake->ring.data[(page->data_head + i) % RING_BYTES] = ((const uint8_t *)made->words)[i];
    page->data_head += size;
}

static void rings_are_read_in_the_order_of_time(void **state)
{
    (void)state;
    static struct fake_ring fakes[2];
    static const uint64_t times[][2] = {{10, 0}, {20, 1}, {30, 1}, {40, 0}, {50, 0}, {90, 1}};
    struct made made;
    for (size_t i = 0; i < 2; i++)
        fake_init(&fakes[i], RING_BYTES - 16); // the first record wraps around the end
    for (size_t i = 0; i < ELEMENTS(times); i++)
        fake_add(&fakes[times[i][1]], &made, make_sample(&made, times[i][0]));
    struct perf_ring both[] = {fakes[0].ring, fakes[1].ring};
    struct perf_ring_vec rings = {.items = both, .n = 2, .capacity = 2};
    size_t n = 0;
    perf_rings_begin(&rings, &plain);
    for (struct perf_ring *ring; (ring = perf_rings_next(&rings, &plain, 60)); n++) {
        assert_int_equal(ring->record.time, times[n][0]);
        assert_int_equal(ring->record.sample.chain[1], 0x1010);
    }
    perf_rings_end(&rings);
    assert_int_equal(n, 5); // the last record waits for the next round
    perf_rings_begin(&rings, &plain);
    struct perf_ring *last = perf_rings_next(&rings, &plain, 100);
    assert_non_null(last);
    assert_int_equal(last->record.time, 90);
    assert_null(perf_rings_next(&rings, &plain, 100));
    perf_rings_end(&rings);
    assert_int_equal(both[0].n_damaged + both[1].n_damaged, 0);
}

static void damage_ends_the_round(void **state)
{
    (void)state;
    static struct fake_ring fake;
    struct made made;
    fake_init(&fake, 0);
    size_t size = make_sample(&made, 1);
    fake_add(&fake, &made, size);
    made.words[0] &= 0xffffffffffff; // a record of no bytes
    fake_add(&fake, &made, size);
    struct perf_ring_vec rings = {.items = &fake.ring, .n = 1, .capacity = 1};
    perf_rings_begin(&rings, &plain);
    assert_non_null(perf_rings_next(&rings, &plain, 100));
    assert_null(perf_rings_next(&rings, &plain, 100));
    perf_rings_end(&rings);
    assert_int_equal(fake.ring.n_damaged, 1);
    struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)fake.pages;
    assert_int_equal(page->data_tail, page->data_head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_has_its_parts),
        cmocka_unit_test(a_copied_stack_has_its_used_part),
        cmocka_unit_test(a_mapping_has_its_file),
        cmocka_unit_test(tasks_and_losses_are_reported),
        cmocka_unit_test(short_records_are_refused),
        cmocka_unit_test(rings_are_read_in_the_order_of_time),
        cmocka_unit_test(damage_ends_the_round),
    };
    return cmocka_run_group_tests_name("perf_ring", tests, NULL, NULL);
}
