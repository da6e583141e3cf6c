// SPDX-License-Identifier: Apache-2.0
//
// The input is a page of the kernel's ring buffer. Each record goes through a plan with every kind
// of field, in memory of the record's size, so that a read beyond the record is noticed. Then the
// whole page goes through the reader, with scheduling events in columns, into small packets.
#include <stdlib.h>
#include <string.h>

#include "producer/sources/ftrace/event_compile.h"
#include "producer/sources/ftrace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char format_text[] =
    "name: every\nID: 7\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    "\tfield:__data_loc char[] text;\toffset:8;\tsize:4;\tsigned:0;\n"
    "\tfield:__rel_loc char[] near;\toffset:12;\tsize:4;\tsigned:0;\n"
    "\tfield:__data_loc u8[] bytes;\toffset:16;\tsize:4;\tsigned:0;\n"
    "\tfield:__rel_loc int[] numbers;\toffset:20;\tsize:4;\tsigned:1;\n"
    "\tfield:unsigned short array[2];\toffset:24;\tsize:4;\tsigned:0;\n"
    "\tfield:void * function;\toffset:28;\tsize:8;\tsigned:0;\n"
    "\tfield:const char * constant;\toffset:36;\tsize:8;\tsigned:0;\n"
    "\tfield:char rest[];\toffset:44;\tsize:0;\tsigned:0;\n";

static struct event_plan *plan_of(enum event_plan_style style)
{
    struct event_format format;
    struct event_plan *plan = NULL;
    if (event_format_parse(format_text, sizeof(format_text) - 1, &format, NULL) < 0)
        abort();
    if (event_plan_compile(&format, "fuzz", style, NULL, 8, &plan, NULL) < 0)
        abort();
    event_format_done(&format);
    return plan;
}

static void encode(const struct event_plan *plan, struct event_context *context,
                   const struct page_record *record)
{
    struct page_record copy = *record;
    size_t room = event_plan_room(plan, record->size);
    uint8_t *exact = malloc(record->size), *out = malloc(room);
    if (!exact || !out)
        abort();
    copy.data = memcpy(exact, record->data, record->size);
    uint8_t *end = event_plan_encode(plan, context, &copy, out);
    if (end && (size_t)(end - out) > room)
        abort();
    free(exact);
    free(out);
}

static void read_page(struct event_plan *plan, const uint8_t *data, size_t size)
{
    static const struct compact_format compact = {.switch_id = 1,
                                                  .switch_size = 44,
                                                  .next_pid = 8,
                                                  .next_prio = 12,
                                                  .next_comm = 16,
                                                  .prev_state = 32,
                                                  .prev_state_wide = true,
                                                  .waking_id = 2,
                                                  .waking_size = 36,
                                                  .pid = 8,
                                                  .target_cpu = 12,
                                                  .prio = 16,
                                                  .comm = 20,
                                                  .common_flags = 2};
    struct event_plan *plans[8] = {[1] = plan, [2] = plan, [7] = plan};
    struct pid_feed pids = {0};
    struct kernel_symbols symbols = {0};
    struct kernel_strings strings = {0};
    struct packet_buffer *buffer;
    if (packet_buffer_new(8192, PACKET_BUFFER_RING, &buffer, NULL) < 0)
        abort();
    struct packet_writer writer = packet_writer_over(buffer, 2);
    struct reader reader = {.layout = page_layout_default(8, 4096),
                            .context = {&pids, &symbols, &strings},
                            .plans = plans,
                            .n_plans = 8,
                            .keep_bad_pages = true};
    if (reader_init(&reader, 4096, &writer, &compact) < 0 || reader_add_cpu(&reader, 0, -1) < 0)
        abort();
    reader.bundle.want = 0;
    reader_parse(&reader, 0, data, size);
    if (writer.packets_dropped > reader.counts.refused + reader.counts.bad_events + 2)
        abort();
    reader_done(&reader);
    packet_buffer_free(buffer);
    kernel_symbols_done(&symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct page_layout layouts[] = {
        {.commit_size = 8, .data_offset = 16, .data_size = 4080},
        {.commit_size = 4, .data_offset = 12, .data_size = 4084},
    };
    struct event_plan *plans[] = {plan_of(EVENT_PLAN_DESCRIBED), plan_of(EVENT_PLAN_GENERIC)};
    struct pid_feed pids = {0};
    struct kernel_symbols symbols = {0};
    struct kernel_strings strings = {0};
    struct event_context context = {&pids, &symbols, &strings};
    for (size_t i = 0; i < 2; i++) {
        struct page_reader page;
        struct page_record record;
        if (!page_open(&page, &layouts[i], data, size))
            continue;
        while (page_next(&page, &record))
            encode(plans[i], &context, &record);
    }
    read_page(plans[0], data, size);
    kernel_symbols_done(&symbols);
    kernel_strings_done(&strings);
    event_plan_free(plans[0]);
    event_plan_free(plans[1]);
    return 0;
}
