// SPDX-License-Identifier: Apache-2.0
//
// Texts of tracefs: event formats (compiled in every style), page headers, printk_formats and a
// CPU's statistics.
#include "common/elements.h"
#include "producer/sources/ftrace/cpu_stats.h"
#include "producer/sources/ftrace/event_compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compile(const struct event_format *format)
{
    static const enum event_plan_style styles[] = {EVENT_PLAN_TYPED, EVENT_PLAN_DESCRIBED,
                                                   EVENT_PLAN_GENERIC, EVENT_PLAN_KPROBE};
    for (size_t i = 0; i < ELEMENTS(styles); i++) {
        const struct ftrace_event_type *type = ftrace_event_type_by_name(format->name);
        struct event_plan *plan;
        if (styles[i] == EVENT_PLAN_TYPED && !type)
            type = ftrace_event_type_by_number(3);
        if (event_plan_compile(format, "fuzz", styles[i], type, 8, &plan, NULL) == 0)
            event_plan_free(plan);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct event_format format;
    struct page_layout layout;
    struct kernel_strings strings = {0};
    struct cpu_stats stats;
    struct err err;
    if (event_format_parse((const char *)data, size, &format, &err) == 0) {
        compile(&format);
        event_format_done(&format);
    }
    page_layout_parse((const char *)data, size, &layout, &err);
    kernel_strings_parse(&strings, (const char *)data, size);
    kernel_strings_done(&strings);
    cpu_stats_parse((const char *)data, size, &stats);
    cpu_stats_now((const char *)data, size);
    return 0;
}
