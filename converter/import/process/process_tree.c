// SPDX-License-Identifier: Apache-2.0
//
// ProcessTree: processes and their threads, from /proc.
#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/process/pid_namespaces.h"
#include "protos/fields.h"

#define KTHREADD_PID 2

// Returns the size of a worker's name without its queue. /proc appends the current queue to the
// name of a busy kernel worker thread ("kworker/1:0-events"), and the queue changes all the time.
static size_t worker_name_size(const char *name, size_t size)
{
    static const char prefix[] = "kworker/";
    size_t n = sizeof(prefix) - 1;
    if (size < n || memcmp(name, prefix, n) != 0)
        return size;
    for (; n < size; n++)
        if (name[n] == '+' || name[n] == '-')
            break;
    return n;
}

struct process_text {
    struct strbuf cmdline; // all arguments
    size_t name_size;      // bytes of cmdline that are the name
    size_t n_parts;
};

static void cmdline_read(const struct wire_field *process, int32_t ppid, struct process_text *ret)
{
    struct fields each = fields_of(process, PB_ProcessTree_Process_cmdline);
    while (fields_next(&each)) {
        if (each.field.type != WIRE_BYTES)
            continue;
        if (ret->n_parts++)
            strbuf_add_char(&ret->cmdline, ' ');
        else
            ret->name_size = each.field.size;
        strbuf_add(&ret->cmdline, each.field.data, each.field.size);
    }
    const char *text = ret->cmdline.text ? ret->cmdline.text : "";
    if (ppid == KTHREADD_PID) {
        size_t size = worker_name_size(text, ret->name_size);
        if (size < ret->name_size) {
            ret->name_size = size;
            ret->cmdline.size = size;
        }
    }
    // A process that overwrote its arguments usually has the whole text in the first argument.
    const char *blank = ret->n_parts == 1 ? memchr(text, ' ', ret->name_size) : NULL;
    if (blank)
        ret->name_size = (size_t)(blank - text);
}

static void process_read(struct import *im, const struct wire_field *field,
                         struct map64 *kernel_threads)
{
    MESSAGE(process, ProcessTree_Process, field);
    if (!field_present(&process.cmdline))
        return;
    struct processes *processes = &im->processes;
    uint32_t pid = (uint32_t)field_u64(&process.pid);
    uint32_t ppid = (uint32_t)field_u64(&process.ppid);
    struct process_text text = {0};
    cmdline_read(field, (int32_t)ppid, &text);
    const char *cmdline = text.cmdline.text ? text.cmdline.text : "";
    uint32_t name = strset_add(&im->strings, cmdline, text.name_size);
    uint32_t all = strset_add(&im->strings, cmdline, text.cmdline.size);
    bool failed = text.cmdline.failed || name == STRSET_NONE || all == STRSET_NONE;
    strbuf_done(&text.cmdline);
    if (failed || (ppid == KTHREADD_PID && map64_set(kernel_threads, pid, 1) < 0) ||
        pid_namespaces_process(pid_namespaces_of(im), pid, field, PB_ProcessTree_Process_nspid) <
            0) {
        import_fail(im, -ENOMEM);
        return;
    }

    int64_t parent = processes_process(processes, ppid);
    int64_t upid = processes_process(processes, pid);
    if (!processes_set_parent(processes, upid, parent))
        stats_add(&im->stats, STAT_process_tracker_parent_pid_changed, 1);
    processes_name(processes, upid, name, PROCESS_NAME_SYSTEM);
    if (field_u64(&process.cmdline_is_comm))
        processes_name_thread(processes, processes_thread(processes, pid), all, NAME_PROCESS_TREE);
    struct process *row = processes_at(processes, upid);
    row->cmdline = all;
    if (field_present(&process.uid)) {
        row->uid = (uint32_t)field_u64(&process.uid);
        row->has_uid = true;
    }
    int64_t start_ts;
    if (field_present(&process.process_start_from_boot) && !row->has_start &&
        import_time(im, CLOCK_ID_BOOTTIME, field_i64(&process.process_start_from_boot),
                    &start_ts)) {
        row->start_ts = start_ts;
        row->has_start = true;
    }
    if (field_present(&process.is_kthread))
        row->is_kthread = field_u64(&process.is_kthread) ? FACT_TRUE : FACT_FALSE;
}

static void thread_read(struct import *im, const struct wire_field *field,
                        const struct map64 *kernel_threads)
{
    MESSAGE(thread, ProcessTree_Thread, field);
    uint32_t tid = (uint32_t)field_u64(&thread.tid);
    uint32_t tgid = (uint32_t)field_u64(&thread.tgid);
    const struct wire_field *name = &thread.name;
    processes_update_thread(&im->processes, tid, tgid);
    int r =
        pid_namespaces_thread(pid_namespaces_of(im), tgid, tid, field, PB_ProcessTree_Thread_nstid);
    if (r == -ENOENT)
        stats_add(&im->stats, STAT_namespaced_thread_missing_process, 1);
    else
        import_fail(im, r);
    if (!field_present(name))
        return;
    size_t size = name->size;
    if (tid == tgid && map64_find(kernel_threads, tid))
        size = worker_name_size(field_text(name), size);
    uint32_t id = strset_add(&im->strings, field_text(name), size);
    processes_name_thread(&im->processes, processes_thread(&im->processes, tid), id,
                          NAME_PROCESS_TREE);
}

static void process_tree_sorted(struct import *im, const struct packet *packet)
{
    CLEANUP(map64_done) struct map64 kernel_threads = {0};
    // Processes come first, in any order of the message.
    struct fields each = fields_of(packet->message, PB_ProcessTree_processes);
    while (!import_failed(im) && fields_next(&each))
        process_read(im, &each.field, &kernel_threads);
    each = fields_of(packet->message, PB_ProcessTree_threads);
    while (!import_failed(im) && fields_next(&each))
        thread_read(im, &each.field, &kernel_threads);
}

const struct importer importer_process_tree = {
    .field = PB_TracePacket_process_tree,
    .sorted = process_tree_sorted,
    .state_size = sizeof(struct pid_namespaces),
    .done = pid_namespaces_done,
};
