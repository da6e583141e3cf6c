// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/sources/ftrace/cpu_stats.h"
#include "producer/sources/ftrace/event_compile.h"
#include "producer/sources/ftrace/print_filter.h"
#include "producer/sources/ftrace/reader.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

#define PAGE      4096
#define N_PLANS   16
#define START     UINT64_C(1000000)
#define EVENT_MAX 4000

#define COMMON                                                                                     \
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                         \
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                         \
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
#define SWITCH                                                                                     \
    "name: sched_switch\nID: 1\n" COMMON                                                           \
    "\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n"                                    \
    "\tfield:char next_comm[16];\toffset:16;\tsize:16;\tsigned:0;\n"                               \
    "\tfield:pid_t next_pid;\toffset:32;\tsize:4;\tsigned:1;\n"                                    \
    "\tfield:int next_prio;\toffset:36;\tsize:4;\tsigned:1;\n"
#define WAKING                                                                                     \
    "name: sched_waking\nID: 2\n" COMMON                                                           \
    "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"                                     \
    "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"                                         \
    "\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n"                                          \
    "\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n"
#define PRINT                                                                                      \
    "name: print\nID: 5\n" COMMON "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"     \
    "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n"
#define EXIT                                                                                       \
    "name: sched_process_exit\nID: 6\n" COMMON                                                     \
    "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"                                     \
    "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"                                         \
    "\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n"
#define MINE                                                                                       \
    "name: mine\nID: 7\n" COMMON "\tfield:unsigned int number;\toffset:8;\tsize:4;\tsigned:0;\n"
#define WORK                                                                                       \
    "name: workqueue_execute_end\nID: 8\n" COMMON                                                  \
    "\tfield:void * work;\toffset:8;\tsize:8;\tsigned:0;\n"                                        \
    "\tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n"

struct fixture {
    struct pid_feed pids;
    struct kernel_symbols symbols;
    struct kernel_functions functions;
    struct kernel_strings strings;
    struct event_plan *plans[N_PLANS];
    struct packet_buffer *buffer;
    struct packet_writer writer;
    struct reader reader;
    uint8_t page[PAGE];
    size_t used;
    // Counts of the fields that look() found in the packets.
    unsigned n_bundles, n_lost, n_descriptors, n_errors, n_symbols;
    uint64_t previous_end[64];
    uint64_t times[EVENT_MAX];
    size_t n_times;
};

static void add_plan(struct fixture *f, const char *group, const char *text,
                     enum event_plan_style style)
{
    struct event_format format;
    assert_int_equal(event_format_parse(text, strlen(text), &format, NULL), 0);
    assert_int_equal(event_plan_compile(&format, group, style,
                                        ftrace_event_type_by_kernel_name(group, format.name), 8,
                                        &f->plans[format.id], NULL),
                     0);
    event_format_done(&format);
}

static void start_page(struct fixture *f)
{
    uint64_t time = START;
    memset(f->page, 0, sizeof(f->page));
    memcpy(f->page, &time, sizeof(time));
    f->used = 16;
}

// Returns false if the page is full.
static bool add_record(struct fixture *f, const void *data, size_t size)
{
    size_t padded = (size + 3) / 4 * 4;
    uint32_t header = 10 << 5 | (uint32_t)(padded / 4), length = (uint32_t)padded + 4;
    if (f->used + 8 + padded > PAGE)
        return false;
    if (padded > 28 * 4)
        header &= ~31u;
    memcpy(f->page + f->used, &header, 4);
    f->used += 4;
    if (padded > 28 * 4) {
        memcpy(f->page + f->used, &length, 4);
        f->used += 4;
    }
    memcpy(f->page + f->used, data, size);
    f->used += padded;
    return true;
}

static bool add_mine(struct fixture *f, uint32_t number)
{
    uint8_t record[12] = {7, 0, 0, 0, 42};
    memcpy(record + 8, &number, 4);
    return add_record(f, record, sizeof(record));
}

static bool add_switch(struct fixture *f, const char *comm, int32_t pid)
{
    uint8_t record[40] = {1, 0, 0, 0, 42, 0, 0, 0, 2};
    memset(record + 16, 0xee, 16); // as kernels that leave garbage after the name
    memcpy(record + 16, comm, strlen(comm) + 1);
    memcpy(record + 32, &pid, 4);
    record[36] = 120;
    return add_record(f, record, sizeof(record));
}

static void parse(struct fixture *f, uint32_t flags)
{
    uint32_t commit = (uint32_t)(f->used - 16) | flags;
    memcpy(f->page + 8, &commit, sizeof(commit));
    reader_parse(&f->reader, 0, f->page, PAGE);
}

static void make(struct fixture *f, size_t buffer_size, enum packet_buffer_policy policy,
                 const struct compact_format *compact)
{
    assert_int_equal(packet_buffer_new(buffer_size, policy, &f->buffer, NULL), 0);
    f->writer = packet_writer_over(f->buffer, 3);
    f->reader.layout = page_layout_default(8, PAGE);
    f->reader.context = (struct event_context){&f->pids, &f->symbols, &f->strings};
    f->reader.plans = f->plans;
    f->reader.n_plans = N_PLANS;
    assert_int_equal(reader_init(&f->reader, PAGE, &f->writer, compact), 0);
    assert_int_equal(reader_add_cpu(&f->reader, 0, -1), 0);
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    start_page(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    reader_done(&f->reader);
    packet_buffer_free(f->buffer);
    for (size_t i = 0; i < N_PLANS; i++)
        event_plan_free(f->plans[i]);
    kernel_symbols_done(&f->symbols);
    kernel_function_vec_done(&f->functions.functions);
    strbuf_done(&f->functions.names);
    kernel_strings_done(&f->strings);
    test_free(f);
    return 0;
}

// Returns the value of the first field `number` in a message; `missing` without such a field.
static uint64_t number_in(struct wire_reader reader, uint32_t number, uint64_t missing)
{
    struct wire_field field;
    wire_foreach(&reader, &field)
        if (field.number == number)
            return field.value;
    return missing;
}

static void look_into_compact(struct fixture *f, struct wire_reader reader)
{
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number != PB_FtraceEventBundle_CompactSched_switch_timestamp)
            continue;
        struct wire_reader times = wire_sub(&field);
        uint64_t delta, time = 0;
        while (wire_next_varint(&times, &delta)) {
            time += delta;
            f->times[f->n_times++] = time;
        }
    }
    assert_false(reader.error);
}

static void look_into_bundle(struct fixture *f, struct wire_reader reader)
{
    struct wire_field field;
    wire_foreach(&reader, &field) {
        switch (field.number) {
        case PB_FtraceEventBundle_event:
            assert_true(f->n_times < EVENT_MAX);
            f->times[f->n_times++] = number_in(wire_sub(&field), PB_FtraceEvent_timestamp, 0);
            break;
        case PB_FtraceEventBundle_lost_events:
            f->n_lost++;
            break;
        case PB_FtraceEventBundle_compact_sched:
            look_into_compact(f, wire_sub(&field));
            break;
        case PB_FtraceEventBundle_error:
            f->n_errors++;
            break;
        case PB_FtraceEventBundle_generic_event_descriptors:
            f->n_descriptors++;
            break;
        case PB_FtraceEventBundle_previous_bundle_end_timestamp:
            f->previous_end[f->n_bundles % 64] = field.value;
            break;
        }
    }
    assert_false(reader.error);
    f->n_bundles++;
}

static void look(struct fixture *f)
{
    struct packet_view packet;
    while (packet_buffer_peek(f->buffer, &packet)) {
        struct wire_reader reader = wire_reader_over(packet.data, packet.size);
        struct wire_field field;
        wire_foreach(&reader, &field) {
            if (field.number == PB_TracePacket_ftrace_events)
                look_into_bundle(f, wire_sub(&field));
            if (field.number == PB_TracePacket_interned_data)
                f->n_symbols++;
        }
        assert_false(reader.error);
        packet_buffer_consume(f->buffer);
    }
}

static void no_event_is_lost_between_packets(void **state)
{
    struct fixture *f = *state;
    make(f, 65536, PACKET_BUFFER_RING, NULL);
    add_plan(f, "test", MINE, EVENT_PLAN_DESCRIBED);
    size_t n = 0;
    for (unsigned page = 0; page < 10; page++) {
        start_page(f);
        for (uint32_t i = 0; add_mine(f, i * 1000003); i++)
            n++;
        f->reader.bundle.want = 0; // packets are small, and end in the middle of pages
        parse(f, 0);
        look(f);
    }
    assert_int_equal(f->n_times, n);
    assert_int_equal(f->reader.counts.events, n);
    assert_int_equal(f->reader.counts.refused, 0);
    assert_true(f->n_bundles > 50);
    assert_int_equal(f->n_descriptors, f->n_bundles);
    for (size_t i = 1; i < n / 10; i++)
        assert_int_equal(f->times[i], f->times[i - 1] + 10);
}

static void each_bundle_says_where_the_last_ended(void **state)
{
    struct fixture *f = *state;
    make(f, 65536, PACKET_BUFFER_DISCARD, NULL);
    add_plan(f, "test", MINE, EVENT_PLAN_DESCRIBED);
    add_mine(f, 1);
    add_mine(f, 2);
    parse(f, 0);
    start_page(f);
    add_mine(f, 3);
    parse(f, UINT32_C(1) << 31);
    look(f);
    assert_int_equal(f->n_bundles, 2);
    assert_int_equal(f->previous_end[0], 0);
    assert_int_equal(f->previous_end[1], START + 20);
    assert_int_equal(f->n_lost, 1);
    assert_int_equal(f->reader.counts.losses, 1);
}

static void put_page(struct fixture *f, int fd, bool full)
{
    start_page(f);
    while (add_mine(f, 1) && full)
        ;
    uint32_t commit = (uint32_t)(f->used - 16);
    memcpy(f->page + 8, &commit, sizeof(commit));
    assert_int_equal(write(fd, f->page, PAGE), PAGE);
}

static void a_round_ends_where_the_writer_is(void **state)
{
    struct fixture *f = *state;
    make(f, 65536, PACKET_BUFFER_DISCARD, NULL);
    add_plan(f, "test", MINE, EVENT_PLAN_DESCRIBED);
    int fd = memfd_create("pages", MFD_CLOEXEC);
    assert_true(fd >= 0);
    static const bool full[] = {false, true, true, false, false, false};
    for (size_t i = 0; i < sizeof(full); i++)
        put_page(f, fd, full[i]);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(reader_add_cpu(&f->reader, 1, fd), 0);
    // Four pages: the rest of the page that was read in part last time, two full pages, the
    // writer's page.
    assert_int_equal(reader_drain(&f->reader, 1, 64, false), READER_CAUGHT_UP);
    assert_int_equal(f->reader.counts.pages, 4);
    assert_int_equal(reader_drain(&f->reader, 1, 1, true), READER_MORE);
    assert_int_equal(f->reader.counts.pages, 5);
    assert_int_equal(reader_drain(&f->reader, 1, 64, true), READER_CAUGHT_UP);
    assert_int_equal(f->reader.counts.pages, 6);
}

static void refused_events_are_counted(void **state)
{
    struct fixture *f = *state;
    make(f, 4096, PACKET_BUFFER_DISCARD, NULL);
    add_plan(f, "test", MINE, EVENT_PLAN_DESCRIBED);
    size_t n = 0;
    for (unsigned page = 0; page < 3; page++) {
        start_page(f);
        while (add_mine(f, 1))
            n++;
        parse(f, 0);
    }
    look(f);
    assert_true(f->n_times > 50);
    assert_int_equal(f->n_times, f->reader.counts.events);
    assert_int_equal(f->reader.counts.events + f->reader.counts.refused, n);
}

static void damage_is_reported_and_the_rest_is_read(void **state)
{
    struct fixture *f = *state;
    make(f, 65536, PACKET_BUFFER_DISCARD, NULL);
    add_plan(f, "test", MINE, EVENT_PLAN_DESCRIBED);
    f->reader.keep_bad_pages = true;
    static const uint8_t short_record[4] = {7}; // shorter than its format says
    add_mine(f, 1);
    add_record(f, short_record, sizeof(short_record));
    add_mine(f, 2);
    f->used += 4; // a null padding record at the end
    f->page[f->used - 4] = 29;
    parse(f, 0);
    look(f);
    assert_int_equal(f->n_times, 2);
    assert_int_equal(f->n_errors, 2);
    assert_int_equal(f->n_bundles, 2); // the page itself has one of its own
    assert_int_equal(f->previous_end[1], START + 30);
    assert_int_equal(f->reader.counts.bad_events, 1);
    assert_int_equal(f->reader.statuses, 1u << PAGE_BAD_EVENT | 1u << PAGE_NULL_PADDING);
}

static void columns_hold_many_switches(void **state)
{
    struct fixture *f = *state;
    struct event_format switched, waking;
    struct compact_format compact;
    assert_int_equal(event_format_parse(SWITCH, strlen(SWITCH), &switched, NULL), 0);
    assert_int_equal(event_format_parse(WAKING, strlen(WAKING), &waking, NULL), 0);
    assert_true(compact_format_of(&switched, &waking, &compact));
    event_format_done(&switched);
    event_format_done(&waking);
    make(f, 8192, PACKET_BUFFER_RING, &compact);
    add_plan(f, "sched", SWITCH, EVENT_PLAN_TYPED);
    size_t n = 0;
    for (unsigned page = 0; page < 20; page++) {
        start_page(f);
        char comm[16];
        do {
            snprintf(comm, sizeof(comm), "thread-%zu", n % 300); // more than a bundle can intern
        } while (add_switch(f, comm, (int32_t)(n % 300 + 1)) && ++n);
        parse(f, 0);
        look(f);
    }
    assert_int_equal(f->n_times, n);
    assert_int_equal(f->times[0], START + 10);
    assert_int_equal(f->times[1], START + 20);
    assert_int_equal(f->pids.recent[7], 7);
}

static void columns_want_the_known_layout(void **state)
{
    (void)state;
    static const char odd[] = "name: sched_switch\nID: 1\n" COMMON
                              "\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n"
                              "\tfield:char next_comm[32];\toffset:16;\tsize:32;\tsigned:0;\n"
                              "\tfield:pid_t next_pid;\toffset:48;\tsize:4;\tsigned:1;\n"
                              "\tfield:int next_prio;\toffset:52;\tsize:4;\tsigned:1;\n";
    struct event_format format;
    struct compact_format compact;
    assert_int_equal(event_format_parse(odd, sizeof(odd) - 1, &format, NULL), 0);
    assert_false(compact_format_of(&format, NULL, &compact));
    event_format_done(&format);
}

static void add_symbol(struct fixture *f, uint64_t address, const char *name)
{
    struct kernel_function function = {address, (uint32_t)f->functions.names.size};
    f->symbols.functions = &f->functions;
    f->functions.n_users = 2; // the fixture is one
    strbuf_add(&f->functions.names, name, strlen(name) + 1);
    assert_int_equal(kernel_function_vec_push(&f->functions.functions, function), 0);
}

struct heard_end {
    unsigned n;
    struct task_end end;
    char name[17];
};

static void hear_end(void *userdata, const struct task_end *end)
{
    struct heard_end *heard = userdata;
    heard->n++;
    heard->end = *end;
    memset(heard->name, 0, sizeof(heard->name));
    memcpy(heard->name, end->name, end->size);
}

// Tasks that exit are published. If the config selects the event, it is recorded instead.
static void exits_are_published(void **state)
{
    struct fixture *f = *state;
    struct heard_end heard = {0};
    uint8_t record[36] = {6, 0, 0, 0, 42};
    int32_t tid = 4711;
    memcpy(record + 8, "sixteen letters!", 16);
    memcpy(record + 24, &tid, sizeof(tid));
    f->reader.exits = (struct exit_format){.id = 6, .pid = 24, .comm = 8, .comm_size = 16};
    make(f, 8192, PACKET_BUFFER_RING, NULL);
    add_record(f, record, sizeof(record)); // nobody listens
    parse(f, 0);
    f->pids.exited = hear_end;
    f->pids.userdata = &heard;
    start_page(f);
    add_record(f, record, sizeof(record));
    add_record(f, record, 20); // too short
    parse(f, 0);
    look(f);
    assert_int_equal(heard.n, 1);
    assert_int_equal(heard.end.tid, 4711);
    assert_string_equal(heard.name, "sixteen letters!");
    assert_int_equal(f->n_times, 0);

    add_plan(f, "sched", EXIT, EVENT_PLAN_TYPED);
    start_page(f);
    add_record(f, record, sizeof(record));
    parse(f, 0);
    look(f);
    assert_int_equal(heard.n, 1);
    assert_int_equal(f->n_times, 1);
}

// The end of a task's id is published with the boot time, whatever the clock of the events. After
// the end, the id counts as new.
static void frees_are_published(void **state)
{
    struct fixture *f = *state;
    struct heard_end heard = {0};
    uint8_t record[20] = {9, 0, 0, 0, 42};
    int32_t tid = 4711;
    memcpy(record + 12, &tid, sizeof(tid));
    f->reader.frees = (struct free_format){.id = 9, .pid = 12};
    make(f, 8192, PACKET_BUFFER_RING, NULL);
    f->pids.freed = hear_end;
    f->pids.userdata = &heard;
    pid_feed_publish(&f->pids, 4711);
    add_record(f, record, sizeof(record));
    add_record(f, record, 12); // too short
    parse(f, 0);
    look(f);
    assert_int_equal(heard.n, 1);
    assert_int_equal(heard.end.tid, 4711);
    assert_int_equal(heard.end.size, 0);
    nsec_t time = heard.end.time;
    assert_true(time > 0);
    assert_int_equal(f->pids.recent[4711 % PID_FEED_CACHE], 0);
    assert_int_equal(f->n_times, 0);

    f->reader.clock = (struct bundle_head){.clock = 2, .ftrace_time = 1000, .boot_time = 4000};
    start_page(f);
    add_record(f, record, sizeof(record));
    parse(f, 0);
    assert_int_equal(heard.n, 2);
    assert_int_equal(heard.end.time, time + 3000);
}

static void names_of_functions_are_sent_once(void **state)
{
    struct fixture *f = *state;
    make(f, 65536, PACKET_BUFFER_DISCARD, NULL);
    add_plan(f, "workqueue", WORK, EVENT_PLAN_TYPED);
    add_symbol(f, 0xffffffff81000000, "do_work");
    add_symbol(f, 0xffffffff81000100, "do_more");
    uint8_t record[24] = {8, 0, 0, 0, 42};
    uint64_t address = 0xffffffff81000010;
    memcpy(record + 16, &address, 8);
    for (unsigned i = 0; i < 3; i++) {
        start_page(f);
        add_record(f, record, sizeof(record));
        add_record(f, record, sizeof(record));
        parse(f, 0);
    }
    look(f);
    // The symbol is in the bundle, and once more in case that a ring has dropped the bundle.
    assert_int_equal(f->n_symbols, 2);
    assert_int_equal(f->n_times, 6);
    bundle_clear_state(&f->reader.bundle);
    look(f);
    assert_int_equal(f->n_symbols, 3);
}

static void names_are_sent_again_after_a_loss(void **state)
{
    struct fixture *f = *state;
    make(f, 65536, PACKET_BUFFER_DISCARD, NULL);
    add_plan(f, "workqueue", WORK, EVENT_PLAN_TYPED);
    add_symbol(f, 0xffffffff81000000, "do_work");
    packet_writer_clear_state(&f->writer);
    uint8_t record[24] = {8, 0, 0, 0, 42};
    uint64_t address = 0xffffffff81000010;
    memcpy(record + 16, &address, 8);
    add_record(f, record, sizeof(record));
    parse(f, 0);
    look(f);
    assert_int_equal(f->n_symbols, 2);
    assert_null(packet_writer_begin(&f->writer, 0, 1 << 20));
    assert_true(f->writer.dropped);
    parse(f, 0);
    look(f);
    assert_int_equal(f->n_symbols, 3);
    assert_int_equal(f->n_times, 2);
}

static void numbers_of_addresses_do_not_grow_for_ever(void **state)
{
    struct fixture *f = *state;
    make(f, 65536, PACKET_BUFFER_RING, NULL);
    add_plan(f, "workqueue", WORK, EVENT_PLAN_TYPED);
    add_symbol(f, 0xffffffff81000000, "do_work");
    packet_writer_clear_state(&f->writer);
    uint8_t record[24] = {8, 0, 0, 0, 42};
    uint64_t function = 0xffffffff81000010, work = 0xffff888000000000;
    memcpy(record + 16, &function, 8);
    for (unsigned page = 0; page < 1000; page++) {
        start_page(f);
        do {
            work += 64;
            memcpy(record + 8, &work, 8);
        } while (add_record(f, record, sizeof(record)));
        parse(f, 0);
        assert_true(f->symbols.in_order.n < KERNEL_SYMBOLS_NUMBERS_MAX + PAGE);
        f->n_times = f->n_bundles = 0;
        look(f);
        assert_true(f->n_times > 0);
    }
    // The symbol is written in a bundle and beside the ring, three times: at first, and after two
    // new beginnings.
    assert_int_equal(f->n_symbols, 6);
}

static bool allows(const Pb__FtraceConfig__PrintFilter *filter, const char *text)
{
    return print_filter_allows(filter, text, strlen(text));
}

static void prints_are_filtered(void **state)
{
    struct fixture *f = *state;
    Pb__FtraceConfig__PrintFilter__Rule__AtraceMessage atrace =
        PB__FTRACE_CONFIG__PRINT_FILTER__RULE__ATRACE_MESSAGE__INIT;
    Pb__FtraceConfig__PrintFilter__Rule rules[2] = {PB__FTRACE_CONFIG__PRINT_FILTER__RULE__INIT,
                                                    PB__FTRACE_CONFIG__PRINT_FILTER__RULE__INIT};
    Pb__FtraceConfig__PrintFilter__Rule *list[] = {&rules[0], &rules[1]};
    Pb__FtraceConfig__PrintFilter filter = PB__FTRACE_CONFIG__PRINT_FILTER__INIT;
    filter.rules = list;
    filter.n_rules = 2;
    atrace.type = (char *)"C";
    atrace.prefix = (char *)"mem";
    rules[0].match_case = PB__FTRACE_CONFIG__PRINT_FILTER__RULE__MATCH_ATRACE_MSG;
    rules[0].atrace_msg = &atrace;
    rules[0].has_allow = rules[0].allow = 1;
    rules[1].match_case = PB__FTRACE_CONFIG__PRINT_FILTER__RULE__MATCH_PREFIX;
    rules[1].prefix = (char *)"C|";
    assert_true(allows(&filter, "C|123|memory|5"));
    assert_false(allows(&filter, "C|123|other|5"));
    assert_false(allows(&filter, "C|12x|memory|5"));
    assert_false(allows(&filter, "C|"));
    assert_true(allows(&filter, "C"));
    assert_true(allows(&filter, "B|1|x"));

    make(f, 65536, PACKET_BUFFER_DISCARD, NULL);
    add_plan(f, "ftrace", PRINT, EVENT_PLAN_TYPED);
    f->reader.print_filter = &filter;
    f->reader.print_id = 5;
    f->reader.print_text = 16;
    uint8_t record[32] = {5, 0, 0, 0, 42};
    memcpy(record + 16, "C|1|mem", 8);
    add_record(f, record, sizeof(record));
    memcpy(record + 16, "C|1|cpu", 8);
    add_record(f, record, sizeof(record));
    parse(f, 0);
    look(f);
    assert_int_equal(f->n_times, 1);
}

static void statistics_of_a_cpu(void **state)
{
    (void)state;
    static const char text[] = "entries: 12\noverrun: 3\ncommit overrun: 4\nbytes: 480\n"
                               "oldest event ts:  1126.500000\nnow ts:  1127.239811\n"
                               "dropped events: 5\nread events: 6\nsomething new: 7\n";
    struct cpu_stats stats;
    assert_true(cpu_stats_parse(text, sizeof(text) - 1, &stats));
    assert_int_equal(stats.entries, 12);
    assert_int_equal(stats.overrun, 3);
    assert_int_equal(stats.commit_overrun, 4);
    assert_int_equal(stats.bytes, 480);
    assert_true(stats.oldest_event_ts == 1126.5);
    assert_int_equal(stats.dropped_events, 5);
    assert_int_equal(stats.read_events, 6);
    assert_int_equal(cpu_stats_now(text, sizeof(text) - 1), INT64_C(1127239811000));
    assert_int_equal(cpu_stats_now("now ts: 42\n", 11), 42);
    assert_false(cpu_stats_parse("nothing\n", 8, &stats));
    uint8_t out[CPU_STATS_ROOM];
    stats = (struct cpu_stats){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX,
                               UINT32_MAX, UINT64_MAX, 1,          1};
    struct wire_writer w = wire_writer_over(out, sizeof(out));
    cpu_stats_write(&stats, &w);
    assert_false(w.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(no_event_is_lost_between_packets),
        TEST(each_bundle_says_where_the_last_ended),
        TEST(refused_events_are_counted),
        TEST(damage_is_reported_and_the_rest_is_read),
        TEST(columns_hold_many_switches),
        cmocka_unit_test(columns_want_the_known_layout),
        TEST(a_round_ends_where_the_writer_is),
        TEST(exits_are_published),
        TEST(frees_are_published),
        TEST(names_of_functions_are_sent_once),
        TEST(names_are_sent_again_after_a_loss),
        TEST(numbers_of_addresses_do_not_grow_for_ever),
        TEST(prints_are_filtered),
        cmocka_unit_test(statistics_of_a_cpu),
    };
    return cmocka_run_group_tests_name("ftrace_reader", tests, NULL, NULL);
}
