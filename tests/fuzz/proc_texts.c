// SPDX-License-Identifier: Apache-2.0
//
// Runs every parser of /proc and /sys text. The first byte chooses the parser, and the rest is the
// text. The counters learn their places from the first half of the text and read the second half,
// so that places and text disagree.
#include <stdlib.h>
#include <string.h>

#include "producer/sources/process_stats/process_stats_texts.h"
#include "producer/sources/sys_stats/counter_keys.h"
#include "producer/sources/sys_stats/sys_stats_texts.h"
#include "producer/sources/sys_stats/sysfs.h"
#include "producer/sources/system_info/system_info_texts.h"
#include "protos/fields.h"

#define WIRE_BYTES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_counters(const struct counter_kind *kind, struct span text, struct wire_writer *w)
{
    struct counter_set set;
    struct span first = text, second = text;
    first.end = second.pos = text.pos + span_size(text) / 2;
    if (counter_set_init(&set, kind, NULL, 0) == 0 && counter_set_learn(&set, first) == 0) {
        counter_set_write(&set, second, w, PB_SysStats_vmstat);
        counter_set_write(&set, text, w, PB_SysStats_vmstat);
    }
    counter_set_done(&set);
}

static void fuzz_process(unsigned choice, struct span text, struct wire_writer *w)
{
    struct process_counters counters = {0};
    struct process_status status;
    struct process_times times;
    if (choice == 0 && process_status_parse(text, &status, &counters))
        nspid_write(status.nspid, w, PB_ProcessTree_Process_nspid);
    else if (choice == 1)
        process_stat_parse(text, &times);
    else if (choice == 2)
        smaps_rollup_parse(text, &counters);
    else if (choice == 3)
        cmdline_write(text, w, PB_ProcessTree_Process_cmdline);
}

static void fuzz_info(unsigned choice, struct span text)
{
    if (choice == 0) {
        struct span processor = {NULL, NULL};
        struct cpu_info cpu;
        while (cpu_info_next(&text, &processor, &cpu))
            ;
    } else {
        unsigned n_cpus = interrupts_take_header(&text);
        struct irq_name irq;
        while (irq_name_next(&text, n_cpus, &irq))
            ;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t wire[WIRE_BYTES_MAX];
    if (size == 0)
        return 0;
    // A read beyond the end of the copy is noticed.
    size_t n = size - 1;
    char *copy = malloc(n ? n : 1);
    if (!copy)
        return 0;
    memcpy(copy, data + 1, n);
    struct span text = span_over(copy, n);
    struct wire_writer w = wire_writer_over(wire, sizeof(wire));
    switch (data[0]) {
    case 'v':
        fuzz_counters(&counter_kind_vmstat, text, &w);
        break;
    case 'm':
        fuzz_counters(&counter_kind_meminfo, text, &w);
        break;
    case 's':
        stat_text_write(text, UINT32_MAX, 10000000, &w);
        break;
    case 'p':
        psi_text_write(text, 1, 2, &w);
        break;
    case 'b':
        buddyinfo_text_write(text, &w);
        break;
    case 'd':
        diskstats_text_write(text, &w);
        break;
    case 'l':
        slabinfo_text_write(text, &w);
        break;
    case 'a':
        amd_clock_mhz(copy, n);
        break;
    case '0':
    case '1':
    case '2':
    case '3':
        fuzz_process(data[0] - '0', text, &w);
        break;
    case 'c':
    case 'i':
        fuzz_info(data[0] == 'i', text);
        break;
    default:
        span_whole_lines(text);
    }
    free(copy);
    return 0;
}
