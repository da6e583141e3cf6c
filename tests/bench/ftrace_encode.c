// SPDX-License-Identifier: Apache-2.0
//
// CPU time of an ftrace event from a page of the kernel's ring buffer into a packet. The pages are
// made here, in the layout of a 64-bit kernel, so that every machine measures the same; reading
// them from the kernel is not part of it. Runs under callgrind too (fewer pages: first argument).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "producer/sources/ftrace/event_compile.h"
#include "producer/sources/ftrace/reader.h"

#define PAGE_SIZE    4096
#define PAGES        64 // different ones, used in turn
#define BUFFER_BYTES ((size_t)4 << 20)
#define START_TIME   UINT64_C(2786239413917)
#define DELTA_NS     1500
#define EVENT_ID     300
#define RECORD_MAX   128

#define COMMON                                                                                     \
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                         \
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                         \
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                 \
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

struct kind {
    const char *name, *group;
    const char *format;
    uint32_t record_size;
    bool compact;
    bool generic;
};

#define SWITCH_FORMAT                                                                              \
    "name: sched_switch\nID: 300\n" COMMON                                                         \
    "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"                                \
    "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"                                    \
    "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"                                     \
    "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"                                   \
    "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"                               \
    "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"                                    \
    "\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n"

#define ALLOC_FORMAT(name)                                                                         \
    "name: " name "\nID: 300\n" COMMON                                                             \
    "\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n"                                  \
    "\tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n"                                \
    "\tfield:unsigned long gfp_flags;\toffset:24;\tsize:8;\tsigned:0;\n"                           \
    "\tfield:int migratetype;\toffset:32;\tsize:4;\tsigned:1;\n"

static const struct kind kinds[] = {
    {"sched_switch, in columns", "sched", SWITCH_FORMAT, 64, .compact = true},
    {"sched_switch", "sched", SWITCH_FORMAT, 64},
    {"rss_stat", "kmem",
     "name: rss_stat\nID: 300\n" COMMON
     "\tfield:unsigned int mm_id;\toffset:8;\tsize:4;\tsigned:0;\n"
     "\tfield:unsigned int curr;\toffset:12;\tsize:4;\tsigned:0;\n"
     "\tfield:int member;\toffset:16;\tsize:4;\tsigned:1;\n"
     "\tfield:long size;\toffset:24;\tsize:8;\tsigned:1;\n",
     32},
    {"mm_page_alloc", "kmem", ALLOC_FORMAT("mm_page_alloc"), 40},
    {"the same, unknown to the table", "bench", ALLOC_FORMAT("bench_page_alloc"), 40,
     .generic = true},
    {"block_rq_issue", "block",
     "name: block_rq_issue\nID: 300\n" COMMON "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n"
     "\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n"
     "\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n"
     "\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;\n"
     "\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n"
     "\tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;\n"
     "\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n",
     68},
};

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void put(uint8_t *record, size_t offset, uint64_t value, size_t size)
{
    memcpy(record + offset, &value, size);
}

static void fill_switch(uint8_t *record, uint32_t *random)
{
    static const char *const names[] = {"swapper/0", "kworker/0:1", "mmtrace", "bash",
                                        "sshd",      "rcu_preempt", "python3", "kswapd0"};
    for (unsigned side = 0; side < 2; side++) {
        uint32_t pid = next_random(random) % 8;
        strcpy((char *)record + 8 + 32 * side, names[pid]);
        put(record, 24 + 32 * side, pid * 317, 4);
        put(record, 28 + 32 * side, 120, 4);
    }
    put(record, 32, next_random(random) % 2, 8);
}

static void fill(const struct kind *kind, uint8_t *record, uint32_t *random)
{
    memset(record, 0, RECORD_MAX);
    put(record, 0, EVENT_ID, 2);
    put(record, 4, 1000 + next_random(random) % 8, 4);
    if (strstr(kind->format, "sched_switch")) {
        fill_switch(record, random);
    } else if (strstr(kind->format, "rss_stat")) {
        put(record, 8, next_random(random), 4);
        put(record, 12, next_random(random) % 2, 4);
        put(record, 16, next_random(random) % 4, 4);
        put(record, 24, (uint64_t)(next_random(random) % 65536) * 4096, 8);
    } else if (strstr(kind->format, "page_alloc")) {
        put(record, 8, next_random(random) % 6000000, 8);
        put(record, 16, next_random(random) % 4, 4);
        put(record, 24, 0x140dca, 8);
        put(record, 32, next_random(random) % 4, 4);
    } else {
        put(record, 8, 8 << 20 | 1, 4);
        put(record, 16, next_random(random) * 8, 8);
        put(record, 24, 8, 4);
        put(record, 28, 4096, 4);
        memcpy(record + 34, "WS", 2);
        memcpy(record + 44, "kworker/u8:2", 12);
        put(record, 60, 1 << 16 | 64, 4);
    }
}

// Fills a page with records; how many there are.
static size_t make_page(const struct kind *kind, uint8_t *page, uint64_t time, uint32_t *random)
{
    size_t at = 16, n = 0;
    memcpy(page, &time, sizeof(time));
    for (; at + 4 + kind->record_size <= PAGE_SIZE; n++) {
        uint8_t record[RECORD_MAX];
        uint32_t header = DELTA_NS << 5 | kind->record_size / 4;
        fill(kind, record, random);
        memcpy(page + at, &header, sizeof(header));
        memcpy(page + at + 4, record, kind->record_size);
        at += 4 + kind->record_size;
    }
    uint64_t commit = at - 16;
    memcpy(page + 8, &commit, sizeof(commit));
    return n;
}

static struct event_plan *compile(const struct kind *kind, struct compact_format *ret_compact)
{
    struct event_format format;
    struct event_plan *plan;
    if (event_format_parse(kind->format, strlen(kind->format), &format, NULL) < 0)
        abort();
    const struct ftrace_event_type *type =
        ftrace_event_type_by_kernel_name(kind->group, format.name);
    if (event_plan_compile(&format, kind->group,
                           kind->generic ? EVENT_PLAN_DESCRIBED : EVENT_PLAN_TYPED, type, 8, &plan,
                           NULL) < 0)
        abort();
    if (kind->compact && !compact_format_of(&format, NULL, ret_compact))
        abort();
    event_format_done(&format);
    return plan;
}

static void measure(const struct kind *kind, size_t n_pages)
{
    struct packet_buffer *buffer;
    struct compact_format compact;
    struct event_plan *plans[EVENT_ID + 1] = {0};
    struct pid_feed pids = {0};
    struct kernel_symbols symbols = {0};
    struct kernel_strings strings = {0};
    uint8_t *pages = malloc((size_t)PAGES * PAGE_SIZE);
    if (!pages || packet_buffer_new(BUFFER_BYTES, PACKET_BUFFER_RING, &buffer, NULL) < 0)
        abort();
    plans[EVENT_ID] = compile(kind, &compact);
    struct packet_writer writer = packet_writer_over(buffer, 2);
    struct reader reader = {
        .layout = page_layout_default(8, PAGE_SIZE),
        .context = {&pids, &symbols, &strings},
        .plans = plans,
        .n_plans = EVENT_ID + 1,
    };
    if (reader_init(&reader, PAGE_SIZE, &writer, kind->compact ? &compact : NULL) < 0 ||
        reader_add_cpu(&reader, 0, -1) < 0)
        abort();
    uint32_t random = 1;
    size_t per_page = 0;
    for (size_t i = 0; i < PAGES; i++)
        per_page = make_page(kind, pages + i * PAGE_SIZE, START_TIME, &random);
    for (size_t i = 0; i < PAGES; i++) // memory is touched, caches are warm
        reader_parse(&reader, 0, pages + i * PAGE_SIZE, PAGE_SIZE);
    uint64_t events = reader.counts.events, bytes = writer.bytes;
    nsec_t start = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; i < n_pages; i++)
        reader_parse(&reader, 0, pages + i % PAGES * PAGE_SIZE, PAGE_SIZE);
    nsec_t time = nsec_now(CLOCK_PROCESS_CPUTIME_ID) - start;
    events = reader.counts.events - events;
    if (events != n_pages * per_page)
        abort();
    printf("%-32s %6.1f ns, %5.1f bytes per event\n", kind->name, (double)time / (double)events,
           (double)(writer.bytes - bytes) / (double)events);
    reader_done(&reader);
    event_plan_free(plans[EVENT_ID]);
    kernel_symbols_done(&symbols);
    packet_buffer_free(buffer);
    free(pages);
}

int main(int argc, char **argv)
{
    size_t n_pages = argc > 1 ? strtoul(argv[1], NULL, 10) : 50000;
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (argc < 3 || strcmp(kinds[i].name, argv[2]) == 0)
            measure(&kinds[i], n_pages);
    return 0;
}
