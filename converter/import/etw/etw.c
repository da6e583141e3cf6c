// SPDX-License-Identifier: Apache-2.0
//
// ETW events of CPUs and memory. Switches and wake-ups fill sched_slice and thread_state like the
// events of Linux, with the states of Windows. Counts of pages are counters. Threads whose ids were
// removed for privacy become one thread, Anonymized Process.
#include "converter/import/etw/etw.h"

#include "common/elements.h"
#include "converter/import/importer.h"
#include "converter/import/process/sched_slices.h"
#include "protos/fields.h"

#define TID_ANONYMOUS UINT32_MAX

static const char *const thread_states[] = {
    "Initialized", "Ready",   "Running",    "Standby",
    "Terminated",  "Waiting", "Transition", "DeferredReady",
};

static const char *const wait_reasons[] = {
    "Executive",        "FreePage",         "PageIn",       "PoolAllocation",   "DelayExecution",
    "Suspended",        "UserRequest",      "WrExecutive",  "WrFreePage",       "WrPageIn",
    "WrPoolAllocation", "WrDelayExecution", "WrSuspended",  "WrUserRequest",    "WrEventPair",
    "WrQueue",          "WrLpcReceive",     "WrLpcReply",   "WrVirtualMemory",  "WrPageOut",
    "WrRendezvous",     "WrKeyedEvent",     "WrTerminated", "WrProcessInSwap",  "WrCpuRateControl",
    "WrCalloutStack",   "WrKernel",         "WrResource",   "WrPushLock",       "WrMutex",
    "WrQuantumEnd",     "WrDispatchInt",    "WrPreempted",  "WrYieldExecution", "WrFastMutex",
    "WrGuardedMutex",   "WrRundown",
};

static uint32_t thread_of(const struct wire_field *tid)
{
    return field_present(tid) ? (uint32_t)field_u64(tid) : TID_ANONYMOUS;
}

static int64_t utid_of(struct import *im, uint32_t tid)
{
    int64_t utid = processes_thread(&im->processes, tid);
    if (tid == TID_ANONYMOUS)
        processes_name_thread(&im->processes, utid,
                              strset_add_text(&im->strings, TEXT("Anonymized Process")),
                              NAME_FTRACE);
    return utid;
}

// Sets the reason of a thread's wait. PageIn, and WrExecutive to WrRundown, count as waits for I/O.
static void wait_reason(struct import *im, int64_t utid, const struct wire_field *field)
{
    uint8_t reason = (uint8_t)field_u64(field);
    bool is_io = reason == PB_PAGE_IN || (reason >= PB_WR_EXECUTIVE && reason <= PB_WR_RUNDOWN);
    const char *text = reason < ELEMENTS(wait_reasons) ? wait_reasons[reason] : NULL;
    thread_states_blocked(&im->thread_states, utid, is_io, text, text ? strlen(text) : 0);
}

static void switch_handle(struct import *im, const struct bundle_event *record,
                          const struct wire_field *message)
{
    MESSAGE(event, CSwitchEtwEvent, message);
    const struct wire_field *number = &event.old_thread_state;
    const struct wire_field *zigzag = &event.old_thread_state_int;
    uint8_t state = (uint8_t)(field_present(number) ? (int64_t)field_u64(number)
                                                    : wire_unzigzag(field_u64(zigzag)));
    uint32_t prev = thread_of(&event.old_thread_id);
    uint32_t next = thread_of(&event.new_thread_id);
    struct sched_cpu *cpu = sched_cpu_get(im, record->cpu);
    if (!cpu)
        return;
    cpus_see(im, record->cpu);
    struct sched_switch change = {
        .ts = record->ts,
        .cpu = record->cpu,
        .next_utid = utid_of(im, next),
        .next_tid = next,
        .prev_utid = utid_of(im, prev),
        .prev_tid = prev,
        .next_priority = (int32_t)wire_unzigzag(field_u64(&event.new_thread_priority)),
    };
    sched_switch_as(im, cpu, &change,
                    state < ELEMENTS(thread_states) ? thread_states[state] : NULL);
    if (state == PB_WAITING)
        wait_reason(im, change.prev_utid, &event.old_thread_wait_reason_int);
}

static void ready_handle(struct import *im, const struct bundle_event *record, uint32_t waker_tid,
                         const struct wire_field *message)
{
    MESSAGE(event, ReadyThreadEtwEvent, message);
    int64_t utid = processes_thread(&im->processes, (uint32_t)field_u64(&event.t_thread_id));
    int64_t waker = processes_thread(&im->processes, waker_tid);
    thread_states_wake(&im->thread_states, record->ts, utid, waker, -1);
    import_bounds(im, record->ts);
}

static void pages_push(struct import *im, int64_t ts, const char *what, uint64_t n)
{
    struct track_spec track = {
        .type = "etw_meminfo",
        .unit = "pages",
        .counter = true,
        .dimensions = {dimension_text("counter_type", what, strlen(what))},
        .name = import_text(im, "%s Page Count", what),
    };
    counter_push(im, ts, tracks_get(&im->tracks, &track), (double)n, ARG_SET_NONE);
}

static void priorities_push(struct import *im, int64_t ts, const struct wire_field *message,
                            uint32_t number, const char *what)
{
    struct values values = values_of(message, number);
    uint64_t n;
    // Windows has eight priorities, but a trace can claim any number.
    for (unsigned i = 0; i < 64 && values_next(&values, &n); i++) {
        pages_push(im, ts, import_text(im, "%s Pri-%u", what, i).text, n);
    }
}

static void memory_handle(struct import *im, int64_t ts, const struct wire_field *message)
{
    static const struct {
        uint32_t number;
        const char *name;
    } counts[] = {
        {PB_MemInfoEtwEvent_zero_page_count, "Zero"},
        {PB_MemInfoEtwEvent_free_page_count, "Free"},
        {PB_MemInfoEtwEvent_modified_page_count, "Modified"},
        {PB_MemInfoEtwEvent_modified_no_write_page_count, "ModifiedNoWrite"},
        {PB_MemInfoEtwEvent_bad_page_count, "Bad"},
        {PB_MemInfoEtwEvent_modified_page_count_page_file, "ModifiedPageFile"},
        {PB_MemInfoEtwEvent_paged_pool_page_count, "PagedPool"},
        {PB_MemInfoEtwEvent_non_paged_pool_page_count, "NonPagedPool"},
        {PB_MemInfoEtwEvent_mdl_page_count, "Mdl"},
        {PB_MemInfoEtwEvent_commit_page_count, "Commit"},
    };
    MESSAGE(event, MemInfoEtwEvent, message);
    for (size_t i = 0; i < ELEMENTS(counts); i++)
        pages_push(im, ts, counts[i].name, field_u64(&event.at[counts[i].number]));
    priorities_push(im, ts, message, PB_MemInfoEtwEvent_standby_page_counts, "Standby");
    priorities_push(im, ts, message, PB_MemInfoEtwEvent_repurposed_page_counts, "Repurposed");
}

static void event_handle(struct import *im, struct etw *etw, const struct bundle_event *record,
                         uint32_t tid, const struct wire_field *event)
{
    switch (event->number) {
    case PB_EtwTraceEvent_timestamp:
    case PB_EtwTraceEvent_cpu:
    case PB_EtwTraceEvent_thread_id:
        break;
    case PB_EtwTraceEvent_c_switch:
        switch_handle(im, record, event);
        break;
    case PB_EtwTraceEvent_ready_thread:
        ready_handle(im, record, tid, event);
        break;
    case PB_EtwTraceEvent_mem_info:
        memory_handle(im, record->ts, event);
        break;
    default:
        if (!etw_io_handle(im, etw, record->ts, tid, event))
            stats_add(&im->stats, STAT_mmsql_etw_events_left_out, 1);
    }
}

static void etw_event(struct import *im, void *state, const struct bundle_event *record)
{
    union message_EtwTraceEvent head;
    message_read(record->run->event, head.at, ELEMENTS(head.at));
    uint32_t tid = (uint32_t)field_u64(&head.thread_id);
    processes_thread(&im->processes, tid);
    struct wire_reader reader = record->run->event;
    struct wire_field field;
    wire_foreach(&reader, &field)
        event_handle(im, state, record, tid, &field);
}

static void etw_finish(struct import *im, void *state)
{
    etw_io_finish(im, state);
}

static void etw_done(void *state)
{
    struct etw *etw = state;
    map64_done(&etw->running);
    etw_started_vec_done(&etw->started);
}

const struct importer importer_etw = {
    .field = PB_TracePacket_etw_events,
    .event = etw_event,
    .state_size = sizeof(struct etw),
    .finish = etw_finish,
    .done = etw_done,
};
