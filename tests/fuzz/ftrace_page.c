// SPDX-License-Identifier: Apache-2.0
//
// A page of the kernel's ring buffer, and records through a plan with every kind of field. Each
// record is copied to memory of its own size, so that a read beyond it is seen.
#include <stdlib.h>
#include <string.h>

#include "producer/sources/ftrace/event_compile.h"

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

static void encode(const struct event_plan *plan, const struct event_context *context,
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
    kernel_symbols_done(&symbols);
    kernel_strings_done(&strings);
    event_plan_free(plans[0]);
    event_plan_free(plans[1]);
    return 0;
}
