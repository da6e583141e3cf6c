// SPDX-License-Identifier: Apache-2.0
//
// Facts of a file of another format about its threads, and counts of untranslated parts.
#include "converter/import/importer.h"
#include "protos/fields.h"

static void listed_task(struct import *im, const union message_ForeignTask *task)
{
    struct processes *processes = &im->processes;
    uint32_t name = import_keep(im, &task->name), pid = (uint32_t)field_u64(&task->pid);
    if (field_present(&task->tid)) {
        int64_t utid = processes_update_thread(processes, (uint32_t)field_u64(&task->tid), pid);
        processes_name_thread(processes, utid, name, NAME_OTHER);
        return;
    }
    int64_t parent = processes_process(processes, (uint32_t)field_u64(&task->ppid));
    int64_t upid = processes_process(processes, pid);
    if (!processes_set_parent(processes, upid, parent))
        stats_add(&im->stats, STAT_process_tracker_parent_pid_changed, 1);
    processes_name(processes, upid, name, PROCESS_NAME_SYSTEM);
}

static void foreign_task_now(struct import *im, const struct packet *packet)
{
    MESSAGE(task, ForeignTask, packet->message);
    if (field_u64(&task.is_listed))
        listed_task(im, &task);
}

static void foreign_task_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(task, ForeignTask, packet->message);
    if (field_u64(&task.is_listed))
        return;
    struct processes *processes = &im->processes;
    uint32_t tid = (uint32_t)field_u64(&task.tid);
    int64_t utid = field_present(&task.pid)
                       ? processes_update_thread(processes, tid, (uint32_t)field_u64(&task.pid))
                       : processes_thread(processes, tid);
    if (!field_present(&task.name))
        return;
    enum name_source source = field_u64(&task.from_ftrace) ? NAME_FTRACE : NAME_PROCESS_TREE;
    uint32_t name = import_keep(im, &task.name);
    if (import_failed(im))
        return;
    if (field_u64(&task.names_process))
        processes_rename(processes, utid, name, source);
    else
        processes_name_thread(processes, utid, name, source);
}

const struct importer importer_foreign_task = {
    .field = PB_TracePacket_foreign_task,
    .now = foreign_task_now,
    .sorted = foreign_task_sorted,
};

static void records_count(struct import *im, const struct wire_field *message)
{
    for (struct fields each = fields_of(message, PB_ForeignProblems_perf_records);
         fields_next(&each);) {
        MESSAGE(part, ForeignProblems_Records, &each.field);
        uint32_t type = (uint32_t)field_u64(&part.type);
        if (field_u64(&part.unknown))
            stats_add_at(&im->stats, STAT_perf_unknown_record_type, type, field_i64(&part.unknown));
        if (field_u64(&part.skipped))
            stats_add_at(&im->stats, STAT_perf_record_skipped, type, field_i64(&part.skipped));
    }
    struct values features = values_of(message, PB_ForeignProblems_perf_features_skipped);
    uint64_t feature;
    while (values_next(&features, &feature))
        stats_add_at(&im->stats, STAT_perf_features_skipped, (uint32_t)feature, 1);
}

static void foreign_problems_now(struct import *im, const struct packet *packet)
{
    MESSAGE(part, ForeignProblems, packet->message);
    const struct {
        const struct wire_field *count;
        enum stat stat;
    } counts[] = {
        {&part.ftrace_lines, STAT_systrace_parse_failure},
        {&part.samples_without_frames, STAT_perf_text_importer_sample_no_frames},
        {&part.perf_lines, STAT_mmsql_perf_text_lines_left_out},
        {&part.simpleperf_records, STAT_mmsql_simpleperf_records_left_out},
        {&part.perf_samples_lost, STAT_mmsql_perf_samples_lost},
    };
    for (size_t i = 0; i < ELEMENTS(counts); i++)
        if (field_u64(counts[i].count))
            stats_add(&im->stats, counts[i].stat, field_i64(counts[i].count));
    records_count(im, packet->message);
}

const struct importer importer_foreign_problems = {
    .field = PB_TracePacket_foreign_problems,
    .now = foreign_problems_now,
};
