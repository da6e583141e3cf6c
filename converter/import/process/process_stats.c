// SPDX-License-Identifier: Apache-2.0
//
// ProcessStats: memory and run time of processes, polled from /proc.
#include <stdio.h>

#include "common/elements.h"
#include "converter/import/importer.h"
#include "converter/import/process/process_counters.h"
#include "protos/fields.h"

#define KIB 1024.0

enum kind { KIND_MEMORY, KIND_SMAPS, KIND_RUNTIME, KIND_CHROME };

static const struct {
    uint32_t field;
    enum kind kind;
    const char *key;
} counters[] = {
    {PB_ProcessStats_Process_vm_size_kb, KIND_MEMORY, "virt"},
    {PB_ProcessStats_Process_vm_rss_kb, KIND_MEMORY, "rss"},
    {PB_ProcessStats_Process_rss_anon_kb, KIND_MEMORY, "rss.anon"},
    {PB_ProcessStats_Process_rss_file_kb, KIND_MEMORY, "rss.file"},
    {PB_ProcessStats_Process_rss_shmem_kb, KIND_MEMORY, "rss.shmem"},
    {PB_ProcessStats_Process_vm_swap_kb, KIND_MEMORY, "swap"},
    {PB_ProcessStats_Process_vm_locked_kb, KIND_MEMORY, "locked"},
    {PB_ProcessStats_Process_vm_hwm_kb, KIND_MEMORY, "rss.watermark"},
    {PB_ProcessStats_Process_dmabuf_rss_kb, KIND_MEMORY, "dmabuf_rss"},
    {PB_ProcessStats_Process_smr_rss_kb, KIND_SMAPS, "rss"},
    {PB_ProcessStats_Process_smr_pss_kb, KIND_SMAPS, "pss"},
    {PB_ProcessStats_Process_smr_pss_anon_kb, KIND_SMAPS, "pss.anon"},
    {PB_ProcessStats_Process_smr_pss_file_kb, KIND_SMAPS, "pss.file"},
    {PB_ProcessStats_Process_smr_pss_shmem_kb, KIND_SMAPS, "pss.smem"},
    {PB_ProcessStats_Process_smr_swap_pss_kb, KIND_SMAPS, "swap.pss"},
    {PB_ProcessStats_Process_runtime_user_mode, KIND_RUNTIME, "user_ns"},
    {PB_ProcessStats_Process_runtime_kernel_mode, KIND_RUNTIME, "kernel_ns"},
    {PB_ProcessStats_Process_chrome_private_footprint_kb, KIND_CHROME, "private_footprint_kb"},
    {PB_ProcessStats_Process_chrome_peak_resident_set_kb, KIND_CHROME, "peak_resident_set_kb"},
};

static const struct {
    const char *type, *prefix, *dimension;
} tracks_of[] = {
    [KIND_SMAPS] = {"smaps", "mem.smaps", "smaps_key"},
    [KIND_RUNTIME] = {"proc_stat_runtime", "runtime", "proc_stat_runtime_key"},
    [KIND_CHROME] = {"chrome_process_stats", "chrome", "key"},
};

static uint32_t counter_track(struct import *im, int64_t upid, enum kind kind, const char *key)
{
    if (kind == KIND_MEMORY)
        return process_counter_track(im, upid, PROCESS_COUNTER_MEMORY, key, NULL);
    char name[64];
    int n = snprintf(name, sizeof(name), "%s.%s", tracks_of[kind].prefix, key);
    struct track_spec spec = {
        .type = tracks_of[kind].type,
        .counter = true,
        .dimensions = {dimension_int("upid", upid),
                       dimension_text(tracks_of[kind].dimension, key, strlen(key))},
        .name = {name, (size_t)n},
    };
    return tracks_get(&im->tracks, &spec);
}

static bool counter_read(struct import *im, int64_t ts, int64_t upid,
                         const struct wire_field *field)
{
    if (field->number == PB_ProcessStats_Process_oom_score_adj) {
        uint32_t track = process_counter_track(im, upid, PROCESS_COUNTER_OOM_SCORE, NULL, NULL);
        counter_push(im, ts, track, (double)field_i64(field), ARG_SET_NONE);
        return true;
    }
    for (size_t i = 0; i < ELEMENTS(counters); i++) {
        if (counters[i].field != field->number)
            continue;
        double scale = counters[i].kind == KIND_RUNTIME ? 1 : KIB;
        counter_push(im, ts, counter_track(im, upid, counters[i].kind, counters[i].key),
                     (double)field_i64(field) * scale, ARG_SET_NONE);
        return true;
    }
    return false;
}

static void file_read(struct import *im, int64_t ts, int64_t upid, const struct wire_field *field)
{
    MESSAGE(file, ProcessStats_FDInfo, field);
    const struct wire_field *path = &file.path;
    struct cell *row = database_row(im->db, TABLE_filedescriptor, NULL);
    cell_int(row, COL_filedescriptor_fd, field_i64(&file.fd));
    cell_int(row, COL_filedescriptor_ts, ts);
    cell_int(row, COL_filedescriptor_upid, upid);
    if (field_present(path))
        cell_bytes(row, COL_filedescriptor_path, path->data, path->size);
}

static void process_read(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(process, ProcessStats_Process, message);
    uint32_t pid = (uint32_t)field_u64(&process.pid);
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    struct process *known = processes_find(&im->processes, pid);
    if (known && known->looks_ended) // the pid is in use again, by a process of unknown start
        known->looks_ended = false;
    wire_foreach(&reader, &field) {
        if (field.number == PB_ProcessStats_Process_pid)
            continue;
        if (field.number == PB_ProcessStats_Process_threads) {
            MESSAGE(thread, ProcessStats_Thread, &field);
            uint32_t tid = (uint32_t)field_u64(&thread.tid);
            processes_update_thread(&im->processes, tid, pid);
            continue;
        }
        int64_t upid = processes_process(&im->processes, pid);
        if (field.number == PB_ProcessStats_Process_is_peak_rss_resettable)
            processes_at(&im->processes, upid)->is_peak_rss_resettable =
                field.value ? FACT_TRUE : FACT_FALSE;
        else if (field.number == PB_ProcessStats_Process_fds)
            file_read(im, ts, upid, &field);
        else if (!counter_read(im, ts, upid, &field))
            stats_add(&im->stats, STAT_proc_stat_unknown_counters, 1);
    }
}

// Reads the end of a process. A poll noticed the end some time later. The process only gets an
// end_ts: later data of its pid still belong to the process, until the kernel reports the end. A
// process that started after `last_seen` is another process with the same pid.
static void ended_read(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(ended, ProcessStats_Ended, message);
    uint32_t pid = (uint32_t)field_u64(&ended.pid);
    int64_t last_seen = field_i64(&ended.last_seen);
    struct process *process = processes_find(&im->processes, pid);
    if (!process || (process->has_start && process->start_ts > last_seen))
        return;
    process->end_ts = ts;
    process->looks_ended = true;
}

static void process_stats_sorted(struct import *im, const struct packet *packet)
{
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_ProcessStats_processes)
            process_read(im, packet->ts, &field);
        else if (field.number == PB_ProcessStats_ended)
            ended_read(im, packet->ts, &field);
    }
}

const struct importer importer_process_stats = {
    .field = PB_TracePacket_process_stats,
    .sorted = process_stats_sorted,
};
