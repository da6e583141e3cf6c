// SPDX-License-Identifier: Apache-2.0
//
// A trace describes processes in pieces: a scheduler event has a tid, a fork has a parent and a
// child, and a later scan of /proc has the process of each thread. Rows are therefore kept until
// the end, in the order of Perfetto's numbers. Threads that share an unknown process form a ring,
// and a forked process waits at its parent's thread. When the process of one thread of the ring
// becomes known, all threads of the ring and the waiting processes get this process.
//
// Invariants: a thread's process, once set, never changes; `live` has, for each tid, the newest
// life that has not ended; a pid has at most one living process. If a tid is reused often and none
// of its lives ends, the oldest lives are forgotten, so that the search through the lives of a tid
// stays short.
#include "converter/import/processes.h"

#include <errno.h>
#include <stdlib.h>

#include "common/memory.h"

#define UID_PER_USER 100000 // Android: uid = user * UID_PER_USER + application
#define LIVES_MIN    256    // lives kept per tid; at most twice as many

static struct thread *thread_at(const struct processes *all, int64_t utid)
{
    return &all->threads.items[utid];
}

static struct process *process_at(const struct processes *all, int64_t upid)
{
    return &all->items.items[upid];
}

static int64_t map_get(const struct processes *all, const struct map64 *map, int64_t key)
{
    return map_number(map, (uint64_t)key ^ all->mark);
}

static void map_put(struct processes *all, struct map64 *map, int64_t key, int64_t value)
{
    uint64_t marked = (uint64_t)key ^ all->mark;
    int r = value < 0 ? (map64_remove(map, marked), 0) : map64_set(map, marked, (uint64_t)value);
    failure_note(all->failure, r);
}

// Counts the lives before `newest`, and forgets the oldest lives if the count is too high.
static void lives_bound(struct processes *all, struct thread *newest)
{
    if (newest->older == UTID_NONE) {
        newest->n_older = 0;
        return;
    }
    newest->n_older = thread_at(all, newest->older)->n_older + 1;
    if (newest->n_older < 2 * LIVES_MIN)
        return;
    int64_t at = newest->older;
    for (uint32_t n = 1; n < LIVES_MIN && thread_at(all, at)->older != UTID_NONE; n++)
        at = thread_at(all, at)->older;
    thread_at(all, at)->older = UTID_NONE;
    newest->n_older = LIVES_MIN;
}

static int64_t thread_add(struct processes *all, int64_t tid)
{
    struct thread thread = {.tid = tid,
                            .upid = UPID_NONE,
                            .older = map_get(all, &all->by_tid, tid),
                            .next_sibling = UTID_NONE,
                            .first_child = UPID_NONE,
                            .machine = all->machine,
                            .name = STRSET_NONE};
    if (thread_vec_push(&all->threads, thread) < 0) {
        failure_note(all->failure, -ENOMEM);
        return 0;
    }
    int64_t utid = (int64_t)all->threads.n - 1;
    thread_at(all, utid)->peer = thread_at(all, utid)->leader = utid;
    lives_bound(all, thread_at(all, utid));
    map_put(all, &all->by_tid, tid, utid);
    map_put(all, &all->live, tid, utid);
    return utid;
}

static int64_t process_add(struct processes *all, int64_t pid)
{
    struct process process = {.pid = pid,
                              .parent_upid = UPID_NONE,
                              .first_thread = UTID_NONE,
                              .next_child = UPID_NONE,
                              .machine = all->machine,
                              .name = STRSET_NONE,
                              .cmdline = STRSET_NONE};
    if (process_vec_push(&all->items, process) < 0) {
        failure_note(all->failure, -ENOMEM);
        return 0;
    }
    return (int64_t)all->items.n - 1;
}

static void associate(struct processes *all, int64_t utid, int64_t upid, bool is_main)
{
    struct thread *thread = thread_at(all, utid);
    struct process *process = process_at(all, upid);
    if (thread->upid == UPID_NONE) {
        thread->next_sibling = process->first_thread;
        process->first_thread = utid;
    }
    thread->upid = upid;
    thread->has_main = true;
    thread->is_main = is_main;
}

static void idle_add(struct processes *all)
{
    int64_t upid = process_add(all, 0), utid = thread_add(all, 0);
    if (all->failure->code < 0)
        return;
    associate(all, utid, upid, true);
    thread_at(all, utid)->is_idle = true;
    map_put(all, &all->by_pid, 0, upid);
    processes_name_thread(all, utid, strset_add_text(all->strings, TEXT("swapper")), NAME_CONSTANT);
}

void processes_init(struct processes *all, struct strset *strings, struct failure *failure)
{
    *all = (struct processes){.strings = strings, .failure = failure};
    idle_add(all);
}

int64_t processes_enter_machine(struct processes *all, uint32_t machine)
{
    all->machine = machine;
    all->mark = machine ? hash_u64(machine) : 0; // pids and made-up tids use up to 63 bits
    if (!all->is_without_idle && map_get(all, &all->by_pid, 0) == UPID_NONE)
        idle_add(all);
    return map_get(all, &all->live, 0);
}

bool processes_is_alive(const struct processes *all, int64_t utid)
{
    const struct thread *thread = thread_at(all, utid);
    if (thread->has_end)
        return false;
    if (thread->upid == UPID_NONE)
        return true;
    const struct process *process = process_at(all, thread->upid);
    if (process->has_end)
        return false;
    int64_t now = map_get(all, &all->by_pid, process->pid);
    return now < 0 || now == thread->upid;
}

static void live_refresh(struct processes *all, int64_t tid)
{
    int64_t utid = map_get(all, &all->by_tid, tid);
    while (utid != UTID_NONE && !processes_is_alive(all, utid))
        utid = thread_at(all, utid)->older;
    map_put(all, &all->live, tid, utid);
}

static void live_refresh_process(struct processes *all, int64_t upid)
{
    for (int64_t utid = process_at(all, upid)->first_thread; utid != UTID_NONE;
         utid = thread_at(all, utid)->next_sibling)
        live_refresh(all, thread_at(all, utid)->tid);
}

// Removes a life from the chain of its tid.
static void chain_remove(struct processes *all, int64_t utid)
{
    struct thread *thread = thread_at(all, utid);
    int64_t at = map_get(all, &all->by_tid, thread->tid);
    if (at == utid) {
        map_put(all, &all->by_tid, thread->tid, thread->older);
        thread->older = UTID_NONE;
        return;
    }
    for (; at != UTID_NONE; at = thread_at(all, at)->older) {
        if (thread_at(all, at)->older != utid)
            continue;
        thread_at(all, at)->older = thread->older;
        thread->older = UTID_NONE;
        return;
    }
}

static void chain_push(struct processes *all, int64_t utid)
{
    struct thread *thread = thread_at(all, utid);
    thread->older = map_get(all, &all->by_tid, thread->tid);
    lives_bound(all, thread);
    map_put(all, &all->by_tid, thread->tid, utid);
}

int64_t processes_find_thread(const struct processes *all, int64_t tid)
{
    return map_get(all, &all->live, tid);
}

int64_t processes_thread(struct processes *all, int64_t tid)
{
    int64_t utid = map_get(all, &all->live, tid);
    return utid == UTID_NONE ? thread_add(all, tid) : utid;
}

// Returns the newest living thread of `tid` whose process is unknown or has the pid `pid`.
static int64_t find_in_process(const struct processes *all, int64_t tid, int64_t pid)
{
    int64_t utid = map_get(all, &all->by_tid, tid);
    for (; utid != UTID_NONE; utid = thread_at(all, utid)->older) {
        int64_t upid = thread_at(all, utid)->upid;
        if (processes_is_alive(all, utid) &&
            (upid == UPID_NONE || process_at(all, upid)->pid == pid))
            return utid;
    }
    return UTID_NONE;
}

// Sets the process of `utid` and its ring, and the parent of the processes that wait at threads of
// the ring.
static void ring_settle(struct processes *all, int64_t utid, int64_t upid)
{
    int64_t at = utid, pid = process_at(all, upid)->pid;
    do {
        struct thread *thread = thread_at(all, at);
        if (thread->upid == UPID_NONE)
            associate(all, at, upid, thread->tid == pid);
        int64_t child = thread->first_child;
        thread->first_child = UPID_NONE;
        while (child != UPID_NONE) {
            struct process *process = process_at(all, child);
            process->parent_upid = upid;
            child = process->next_child;
            process->next_child = UPID_NONE;
        }
        int64_t next = thread->peer;
        thread->peer = thread->leader = at;
        at = next;
    } while (at != utid);
}

static int64_t ring_leader(struct processes *all, int64_t utid)
{
    while (thread_at(all, utid)->leader != utid) {
        struct thread *thread = thread_at(all, utid);
        thread->leader = thread_at(all, thread->leader)->leader; // path halving
        utid = thread->leader;
    }
    return utid;
}

static void ring_join(struct processes *all, int64_t a, int64_t b)
{
    int64_t leader_a = ring_leader(all, a), leader_b = ring_leader(all, b);
    if (leader_a == leader_b)
        return;
    thread_at(all, leader_b)->leader = leader_a;
    int64_t next = thread_at(all, a)->peer;
    thread_at(all, a)->peer = thread_at(all, b)->peer;
    thread_at(all, b)->peer = next;
}

static int64_t thread_in_process(struct processes *all, int64_t tid, int64_t upid, bool is_main)
{
    int64_t utid = find_in_process(all, tid, process_at(all, upid)->pid);
    if (utid == UTID_NONE) {
        utid = thread_add(all, tid);
    } else {
        map_put(all, &all->live, tid, utid);
        if (map_get(all, &all->by_tid, tid) != utid) {
            chain_remove(all, utid);
            chain_push(all, utid);
        }
    }
    if (thread_at(all, utid)->upid == UPID_NONE)
        associate(all, utid, upid, is_main);
    ring_settle(all, utid, thread_at(all, utid)->upid);
    return utid;
}

int64_t processes_without_thread(struct processes *all, int64_t pid)
{
    int64_t upid = map_get(all, &all->by_pid, pid);
    if (upid != UPID_NONE)
        return upid;
    upid = process_add(all, pid);
    map_put(all, &all->by_pid, pid, upid);
    return upid;
}

struct process *processes_find(const struct processes *all, int64_t pid)
{
    int64_t upid = map_get(all, &all->by_pid, pid);
    return upid == UPID_NONE ? NULL : process_at(all, upid);
}

int64_t processes_process(struct processes *all, int64_t pid)
{
    bool is_new = map_get(all, &all->by_pid, pid) == UPID_NONE;
    int64_t upid = processes_without_thread(all, pid);
    if (is_new)
        thread_in_process(all, pid, upid, true);
    return upid;
}

int64_t processes_thread_of(struct processes *all, int64_t tid, int64_t upid)
{
    return thread_in_process(all, tid, upid, false);
}

int64_t processes_update_thread(struct processes *all, int64_t tid, int64_t pid)
{
    return thread_in_process(all, tid, processes_process(all, pid), tid == pid);
}

int64_t processes_renew_thread(struct processes *all, int64_t tid)
{
    return thread_add(all, tid);
}

// Ends the lives of this pid. Returns the process that had the pid, or UPID_NONE.
static int64_t pid_free(struct processes *all, int64_t pid)
{
    int64_t before = map_get(all, &all->by_pid, pid);
    map_put(all, &all->by_pid, pid, -1);
    map_put(all, &all->by_tid, pid, -1);
    map_put(all, &all->live, pid, -1);
    return before;
}

void processes_without_idle(struct processes *all)
{
    if (all->is_without_idle)
        return;
    all->is_without_idle = true;
    thread_at(all, 0)->name = STRSET_NONE;
    pid_free(all, 0);
}

int64_t processes_renew(struct processes *all, int64_t pid)
{
    int64_t before = pid_free(all, pid);
    int64_t upid = processes_process(all, pid);
    if (before != UPID_NONE)
        live_refresh_process(all, before);
    return upid;
}

static int64_t thread_start(struct processes *all, int64_t ts, int64_t tid, uint32_t name)
{
    int64_t utid = thread_add(all, tid);
    thread_at(all, utid)->start_ts = ts;
    thread_at(all, utid)->has_start = true;
    processes_name_thread(all, utid, name, NAME_FTRACE);
    return utid;
}

int64_t processes_start(struct processes *all, int64_t ts, int64_t pid, uint32_t name)
{
    int64_t before = pid_free(all, pid); // a pid has one process at a time
    thread_start(all, ts, pid, name);
    int64_t upid = processes_process(all, pid);
    struct process *process = process_at(all, upid);
    process->start_ts = ts;
    process->has_start = true;
    processes_name(all, upid, name, PROCESS_NAME_SYSTEM);
    if (before != UPID_NONE)
        live_refresh_process(all, before);
    return upid;
}

void processes_set_parent_thread(struct processes *all, int64_t upid, int64_t parent_utid)
{
    struct thread *parent = thread_at(all, parent_utid);
    struct process *process = process_at(all, upid);
    if (parent->upid != UPID_NONE) {
        process->parent_upid = parent->upid;
        return;
    }
    process->next_child = parent->first_child;
    parent->first_child = upid;
}

static void associate_threads(struct processes *all, int64_t a, int64_t b)
{
    int64_t upid_a = thread_at(all, a)->upid, upid_b = thread_at(all, b)->upid;
    if (upid_a == UPID_NONE && upid_b == UPID_NONE)
        ring_join(all, a, b);
    else if (upid_a == UPID_NONE)
        ring_settle(all, a, upid_b);
    else if (upid_b == UPID_NONE)
        ring_settle(all, b, upid_a);
}

int64_t processes_start_thread(struct processes *all, int64_t ts, int64_t tid, uint32_t name,
                               int64_t parent_utid)
{
    int64_t utid = thread_start(all, ts, tid, name);
    associate_threads(all, parent_utid, utid);
    return utid;
}

void processes_end_thread(struct processes *all, int64_t ts, int64_t tid)
{
    int64_t utid = map_get(all, &all->live, tid);
    if (utid == UTID_NONE || thread_at(all, utid)->is_idle)
        return;
    struct thread *thread = thread_at(all, utid);
    thread->end_ts = ts;
    thread->has_end = true;
    chain_remove(all, utid);
    live_refresh(all, tid);
    if (thread->upid == UPID_NONE)
        return;
    struct process *process = process_at(all, thread->upid);
    if (process->pid != tid)
        return;
    // The kernel frees a process's main thread last.
    process->end_ts = ts;
    process->has_end = true;
    map_put(all, &all->by_pid, tid, -1);
    live_refresh_process(all, thread->upid);
}

void processes_name_thread(struct processes *all, int64_t utid, uint32_t name,
                           enum name_source source)
{
    struct thread *thread = thread_at(all, utid);
    if (name == STRSET_NONE || source < thread->name_source)
        return;
    thread->name = name;
    thread->name_source = source;
}

void processes_name(struct processes *all, int64_t upid, uint32_t name,
                    enum process_name_source source)
{
    struct process *process = process_at(all, upid);
    if (name == STRSET_NONE || source < process->name_source)
        return;
    process->name = name;
    process->name_source = source;
}

void processes_rename(struct processes *all, int64_t utid, uint32_t name, enum name_source source)
{
    const struct thread *thread = thread_at(all, utid);
    processes_name_thread(all, utid, name, source);
    if (thread->upid != UPID_NONE && process_at(all, thread->upid)->pid == thread->tid)
        processes_name(all, thread->upid, name, PROCESS_NAME_SYSTEM);
}

bool processes_set_parent(struct processes *all, int64_t upid, int64_t parent_upid)
{
    struct process *process = process_at(all, upid);
    if (process->parent_upid == UPID_NONE)
        process->parent_upid = parent_upid;
    return process->parent_upid == parent_upid;
}

static void cell_if(struct cell *row, size_t column, bool present, int64_t value)
{
    if (present)
        cell_int(row, column, value);
}

void processes_add_args(struct processes *all, int64_t upid, const struct arg *args, size_t n)
{
    struct process *process = process_at(all, upid);
    if (!process->args)
        process->args = memory_calloc(1, sizeof(*process->args));
    if (process->args)
        merged_args_add(process->args, args, n, all->failure);
    else
        failure_note(all->failure, -ENOMEM);
}

static int64_t process_facts(const struct processes *all, const struct process *process,
                             struct args *args)
{
    struct merged_args facts = {0};
    struct arg arg;
    if (process->is_kthread) {
        arg = arg_bool("is_kthread", process->is_kthread == FACT_TRUE);
        merged_args_add(&facts, &arg, 1, all->failure);
    }
    if (process->is_peak_rss_resettable) {
        arg = arg_bool("is_peak_rss_resettable", process->is_peak_rss_resettable == FACT_TRUE);
        merged_args_add(&facts, &arg, 1, all->failure);
    }
    if (process->args)
        merged_args_add(&facts, process->args->args.items, process->args->args.n, all->failure);
    if (process->has_sort_index) {
        arg = arg_int("process_sort_index_hint", process->sort_index);
        merged_args_add(&facts, &arg, 1, all->failure);
    }
    int64_t set = args_add(args, facts.args.items, facts.args.n);
    merged_args_done(&facts);
    return set;
}

static int64_t thread_facts(const struct thread *thread, struct args *args)
{
    if (!thread->has_sort_index)
        return ARG_SET_NONE;
    struct arg arg = arg_int("thread_sort_index_hint", thread->sort_index);
    return args_add(args, &arg, 1);
}

static void process_write(const struct processes *all, struct database *db, struct args *args,
                          int64_t upid)
{
    const struct process *process = process_at(all, upid);
    int64_t facts = process_facts(all, process, args);
    struct cell *row = database_row_with_id(db, TABLE_process, upid);
    cell_int(row, COL_process_pid, process->pid);
    cell_name(row, COL_process_name, slice_name_of(all->strings, process->name));
    cell_if(row, COL_process_start_ts, process->has_start, process->start_ts);
    cell_if(row, COL_process_end_ts, process->has_end || process->looks_ended, process->end_ts);
    cell_known(row, COL_process_parent_upid, process->parent_upid);
    cell_if(row, COL_process_uid, process->has_uid, process->uid);
    cell_if(row, COL_process_android_appid, process->has_uid, process->uid % UID_PER_USER);
    cell_if(row, COL_process_android_user_id, process->has_uid, process->uid / UID_PER_USER);
    cell_name(row, COL_process_cmdline, slice_name_of(all->strings, process->cmdline));
    cell_arg_set(row, COL_process_arg_set_id, facts);
    cell_int(row, COL_process_machine_id, process->machine);
}

void processes_write(const struct processes *all, struct database *db, struct args *args)
{
    for (size_t i = 0; i < all->items.n; i++)
        process_write(all, db, args, (int64_t)i);
    for (size_t i = 0; i < all->threads.n; i++) {
        const struct thread *thread = &all->threads.items[i];
        int64_t facts = thread_facts(thread, args);
        struct cell *row = database_row_with_id(db, TABLE_thread, (int64_t)i);
        cell_int(row, COL_thread_tid, thread->tid);
        cell_name(row, COL_thread_name, slice_name_of(all->strings, thread->name));
        cell_if(row, COL_thread_start_ts, thread->has_start, thread->start_ts);
        cell_if(row, COL_thread_end_ts, thread->has_end, thread->end_ts);
        cell_known(row, COL_thread_upid, thread->upid);
        cell_if(row, COL_thread_is_main_thread, thread->has_main, thread->is_main);
        cell_int(row, COL_thread_is_idle, thread->is_idle);
        cell_int(row, COL_thread_machine_id, thread->machine);
        cell_known(row, COL_thread_arg_set_id, facts);
    }
}

void processes_done(struct processes *all)
{
    thread_vec_done(&all->threads);
    vec_foreach(&all->items, process) {
        if (process->args)
            merged_args_done(process->args);
        free(process->args);
    }
    process_vec_done(&all->items);
    map64_done(&all->by_pid);
    map64_done(&all->by_tid);
    map64_done(&all->live);
}
