// SPDX-License-Identifier: Apache-2.0
//
// Records tell the code of processes that begin during the recording: fork copies the parent's
// mappings, exec forgets all. For older processes /proc/PID/maps is read at their first sample.
// Only code is noted. A later mapping replaces earlier mappings at the same addresses.
//
// The scope of a process is decided at its first sample, and again when it executes another
// program. A process that cannot be judged any more, because it has ended, is left out if the
// config or the recording's user limits the processes.
//
// Short programs end before they are looked at: the records are read a moment later. The owner of
// the files of such a process is guessed: it is the owner of the parent's files. The parent mostly
// lives longer, or was looked at before. A guess cannot show anything to a user with limits,
// because the processes of such a recording must be judged alive.
#include "producer/sources/perf/perf_tasks.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"

#define TASKS_MAX    32768
#define MAPPINGS_MAX 16384 // of one process
#define FRAMES_MAX   65536 // of one process, by address
#define NAME_BYTES   4096
#define NAMES_MAX    65536        // of tasks, different ones
#define LATE_REST    NSEC_PER_SEC // until a process that was late is judged again

static struct perf_task *task_free(struct perf_task *task)
{
    if (!task)
        return NULL;
    code_map_done(&task->code);
    task_mapping_vec_done(&task->mappings);
    map64_done(&task->frame_of);
    free(task);
    return NULL;
}

static struct perf_task *task_find(const struct perf_tasks *tasks, int32_t pid)
{
    const uint64_t *found = map64_find(&tasks->by_pid, (uint64_t)pid);
    return found ? (struct perf_task *)(uintptr_t)*found : NULL;
}

static struct perf_task *task_add(struct perf_tasks *tasks, int32_t pid)
{
    struct perf_task *task = task_find(tasks, pid);
    if (task)
        return task;
    task = tasks->n < TASKS_MAX ? calloc(1, sizeof(*task)) : NULL;
    if (!task || map64_set(&tasks->by_pid, (uint64_t)pid, (uintptr_t)task) < 0)
        return task_free(task);
    task->pid = pid;
    tasks->n++;
    return task;
}

static void task_remove(struct perf_tasks *tasks, int32_t pid)
{
    struct perf_task *task = task_find(tasks, pid);
    if (!task)
        return;
    map64_remove(&tasks->by_pid, (uint64_t)pid);
    tasks->n--;
    task_free(task);
}

void perf_tasks_done(struct perf_tasks *tasks)
{
    size_t cursor = 0;
    for (const struct map64_slot *slot; (slot = map64_next(&tasks->by_pid, &cursor));)
        task_free((struct perf_task *)(uintptr_t)slot->value);
    map64_done(&tasks->by_pid);
    strset_done(&tasks->additional);
    strset_done(&tasks->names);
    map64_done(&tasks->name_of);
}

const struct perf_task *perf_tasks_find(const struct perf_tasks *tasks, int32_t pid)
{
    return task_find(tasks, pid);
}

// Names.

static void name_note(struct perf_tasks *tasks, uint32_t tid, const char *name, size_t size)
{
    uint32_t id = size == 0 || tasks->names.n >= NAMES_MAX ? strset_find(&tasks->names, name, size)
                                                           : strset_add(&tasks->names, name, size);
    if (id == STRSET_NONE)
        map64_remove(&tasks->name_of, tid);
    else
        map64_set(&tasks->name_of, tid, id); // without memory there is no name
}

const char *perf_tasks_name(const struct perf_tasks *tasks, int32_t tid)
{
    const uint64_t *id = map64_find(&tasks->name_of, (uint64_t)tid);
    return id ? strset_text(&tasks->names, (uint32_t)*id) : NULL;
}

// Takes the name of a process that is older than the recording.
static void name_read(struct perf_tasks *tasks, int32_t pid)
{
    char text[TASK_NAME_BYTES + 1];
    struct span name = text_file_span(text, sizeof(text), tasks->proc, "/%d/comm", pid), line;
    if (span_take_line(&name, &line))
        name_note(tasks, (uint32_t)pid, line.pos, span_size(line));
}

// The owner of a process's files.

static void owner_find(struct perf_tasks *tasks, struct perf_task *task)
{
    struct code_owner former = task->owner;
    if (task->has_owner == TASK_OWNER_KNOWN)
        return;
    perf_code_owner(tasks->code, task->pid, task->has_owner == TASK_OWNER_FORMER ? &former : NULL,
                    &task->owner);
    task->has_owner = TASK_OWNER_KNOWN;
}

// Mappings.

static void mappings_forget(struct perf_task *task)
{
    code_map_clear(&task->code);
    task_mapping_vec_clear(&task->mappings);
    map64_clear(&task->frame_of);
}

static void mapping_add(struct perf_tasks *tasks, struct perf_task *task,
                        const struct code_mapping *mapping)
{
    owner_find(tasks, task);
    if (task->mappings.n >= MAPPINGS_MAX) {
        mappings_forget(task);
        task->has_mappings = false; // /proc has the mappings that still exist
        return;
    }
    struct task_mapping is = {.file = perf_code_file(tasks->code, &task->owner, mapping),
                              .start = mapping->start,
                              .offset = mapping->offset};
    if (task_mapping_vec_push(&task->mappings, is) == 0)
        code_map_add(&task->code, mapping->start, mapping->end, (uint32_t)task->mappings.n - 1);
    map64_clear(&task->frame_of);
}

// The kernel's names of memory without a file, "[vdso]" and the like, stay as they are.
static bool get_path(const struct mapping *mapping, char *path, size_t room)
{
    if (mapping_get_path(mapping, path, room))
        return true;
    if (mapping->path_size >= room)
        return false;
    memcpy(path, mapping->path, mapping->path_size);
    path[mapping->path_size] = 0;
    return true;
}

static void mappings_read(struct perf_tasks *tasks, struct perf_task *task)
{
    struct process_file file CLEANUP(process_file_close) = {.fd = -1};
    static struct line_reader reader; // too large for a stack; the loop is one thread
    struct mapping mapping;
    char path[PATH_MAX];
    mappings_forget(task);
    int r = process_file_open_maps(&file, &reader, tasks->proc, task->pid);
    while (r >= 0 && (r = maps_next(&reader, &mapping)) == 1) {
        if (mapping.permissions[2] != 'x' || !get_path(&mapping, path, sizeof(path)))
            continue;
        const struct code_mapping is = {
            .path = path, .start = mapping.start, .end = mapping.end, .offset = mapping.offset};
        mapping_add(tasks, task, &is);
    }
    task->has_mappings = !process_file_is_late(r); // otherwise the next sample tries again
}

// Records.

static void note_mapped(struct perf_tasks *tasks, const struct perf_record *record)
{
    const struct code_mapping is = {.path = record->mapped.path,
                                    .build_id = record->mapped.build_id,
                                    .build_id_size = record->mapped.build_id_size,
                                    .start = record->mapped.start,
                                    .end = record->mapped.end,
                                    .offset = record->mapped.file_offset};
    struct perf_task *task = task_find(tasks, (int32_t)record->pid);
    if (task && task->has_mappings && task->scope != TASK_LEFT_OUT)
        mapping_add(tasks, task, &is);
}

static void note_executed(struct perf_tasks *tasks, const struct perf_record *record)
{
    struct perf_task *task = task_add(tasks, (int32_t)record->pid);
    if (!task)
        return;
    mappings_forget(task);
    task->has_mappings = true;
    if (task->has_owner == TASK_OWNER_KNOWN)
        task->has_owner = TASK_OWNER_FORMER;
    task->has_made_code = false;
    task->scope = TASK_UNDECIDED;
    task->is_chosen &= tasks->settings->descendants;
}

static bool is_limited(const struct perf_tasks *tasks)
{
    return tasks->requester && tasks->requester->is_limited;
}

// A process without a sample does not count for the config's number of additional programs.
static bool looks_at_parents(const struct perf_tasks *tasks)
{
    return tasks->settings->descendants ||
           (!is_limited(tasks) && tasks->settings->n_additional == 0);
}

// Looks at a process, so that the owner of its children's files can be guessed.
static void look_at(struct perf_tasks *tasks, struct perf_task *task)
{
    if (!task || task->pid == 0 || is_limited(tasks))
        return;
    owner_find(tasks, task);
    if (!map64_find(&tasks->name_of, (uint64_t)task->pid))
        name_read(tasks, task->pid);
    if (task->scope != TASK_LEFT_OUT && !task->has_mappings)
        mappings_read(tasks, task);
}

void perf_tasks_begin(struct perf_tasks *tasks)
{
    for (size_t i = 0; i < tasks->settings->n_pids; i++)
        look_at(tasks, perf_tasks_get(tasks, tasks->settings->pids[i]));
}

static void note_forked(struct perf_tasks *tasks, const struct perf_record *record)
{
    int32_t parent_pid = (int32_t)record->forked.parent_pid;
    bool is_thread = record->pid == record->forked.parent_pid;
    struct perf_task *parent = is_thread                 ? NULL
                               : looks_at_parents(tasks) ? perf_tasks_get(tasks, parent_pid)
                                                         : task_find(tasks, parent_pid);
    look_at(tasks, parent);
    const uint64_t *name = map64_find(&tasks->name_of, record->forked.parent_tid);
    if (name)
        map64_set(&tasks->name_of, record->tid, *name);
    if (is_thread)
        return;
    task_remove(tasks, (int32_t)record->pid); // an older process with this pid
    struct perf_task *task = parent ? task_add(tasks, (int32_t)record->pid) : NULL;
    if (!task)
        return;
    task->is_chosen = parent->is_chosen && tasks->settings->descendants;
    task->owner = parent->owner;
    task->has_owner = parent->has_owner;
    if (!parent->has_mappings || task_mapping_vec_reserve(&task->mappings, parent->mappings.n) < 0)
        return;
    vec_foreach(&parent->mappings, mapping)
        task_mapping_vec_push(&task->mappings, *mapping);
    vec_foreach(&parent->code.ranges, range)
        code_map_add(&task->code, range->start, range->end, range->number);
    task->has_mappings = true;
}

void perf_tasks_note(struct perf_tasks *tasks, const struct perf_record *record)
{
    switch (record->kind) {
    case PERF_MAPPED:
        note_mapped(tasks, record);
        break;
    case PERF_EXECUTED:
        note_executed(tasks, record);
        name_note(tasks, record->tid, record->named.name, strlen(record->named.name));
        break;
    case PERF_NAMED:
        name_note(tasks, record->tid, record->named.name, strlen(record->named.name));
        break;
    case PERF_FORKED:
        note_forked(tasks, record);
        break;
    case PERF_EXITED:
        map64_remove(&tasks->name_of, record->tid);
        if (record->pid == record->tid)
            task_remove(tasks, (int32_t)record->pid);
        break;
    default:
        break;
    }
}

// Scope.

static bool is_listed(const int32_t *pids, size_t n, int32_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

// Takes the first programs that come, up to the config's number.
static bool is_additional(struct perf_tasks *tasks, int32_t pid)
{
    char text[NAME_BYTES];
    ssize_t n = process_file_text(text, sizeof(text), tasks->proc, pid, "cmdline");
    struct span name = span_over(text, n > 0 ? (size_t)n : 0);
    size_t size = strnlen(name.pos, span_size(name));
    tasks->is_late |= process_file_is_late(n);
    if (size == 0)
        return false;
    if (strset_find(&tasks->additional, name.pos, size) != STRSET_NONE)
        return true;
    return tasks->additional.n < tasks->settings->n_additional &&
           strset_add(&tasks->additional, name.pos, size) != STRSET_NONE;
}

// A process that has ended is known only by the kernel's name, which is cut.
static bool is_called(struct perf_tasks *tasks, int32_t pid, char *const *patterns, size_t n)
{
    const char *name = perf_tasks_name(tasks, pid);
    int r = process_is_called(tasks->proc, pid, patterns, n);
    tasks->is_late |= process_file_is_late(r);
    if (r >= 0 || !name || tasks->is_late)
        return r > 0;
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], name, 0) == 0 ||
            (strlen(name) == TASK_NAME_BYTES - 1 && str_starts_with(patterns[i], name)))
            return true;
    return false;
}

static bool is_in_scope(struct perf_tasks *tasks, struct perf_task *task)
{
    const struct perf_settings *s = tasks->settings;
    int32_t pid = task->pid;
    if (is_listed(s->exclude_pids, s->n_exclude_pids, pid) ||
        is_called(tasks, pid, s->exclude_cmdlines, s->n_exclude_cmdlines) ||
        !requester_may_trace(tasks->requester, tasks->proc, pid))
        return false;
    if (s->n_shards > 1 && (uint32_t)pid % s->n_shards != tasks->shard)
        return false;
    if (!perf_settings_names_some(s) && s->n_additional == 0)
        return true;
    task->is_chosen |=
        is_listed(s->pids, s->n_pids, pid) || is_called(tasks, pid, s->cmdlines, s->n_cmdlines);
    return task->is_chosen || (s->n_additional > 0 && is_additional(tasks, pid));
}

struct perf_task *perf_tasks_get(struct perf_tasks *tasks, int32_t pid)
{
    struct perf_task *task = task_add(tasks, pid);
    if (!task || (task->scope != TASK_UNDECIDED && !task->judge_again))
        return task;
    nsec_t now = nsec_now(tasks->clock);
    if (task->judge_again > now)
        return task;
    tasks->is_late = false;
    task->scope = is_in_scope(tasks, task) && !tasks->is_late ? TASK_SAMPLED : TASK_LEFT_OUT;
    task->judge_again = tasks->is_late ? now + LATE_REST : 0;
    task->judged = (uint64_t)now;
    return task;
}

bool perf_tasks_judged_since(const struct perf_tasks *tasks, int32_t pid, uint64_t time)
{
    const struct perf_task *task = task_find(tasks, pid);
    return task && task->judged > time;
}

void perf_tasks_doubt(struct perf_tasks *tasks)
{
    size_t cursor = 0;
    for (const struct map64_slot *slot; (slot = map64_next(&tasks->by_pid, &cursor));)
        ((struct perf_task *)(uintptr_t)slot->value)->scope = TASK_UNDECIDED;
}

uint32_t perf_task_frame(struct perf_tasks *tasks, struct perf_task *task, uint64_t address)
{
    bool is_new;
    if (!task->has_mappings)
        mappings_read(tasks, task);
    if (task->generation != tasks->code->generation || task->frame_of.n > FRAMES_MAX) {
        map64_clear(&task->frame_of);
        task->generation = tasks->code->generation;
    }
    uint64_t *known = map64_get_or_add(&task->frame_of, address, CODE_STACK_NONE, &is_new);
    if (!known)
        return CODE_STACK_NONE;
    if (!is_new)
        return (uint32_t)*known;
    uint32_t number = code_map_find(&task->code, address);
    const struct task_mapping *mapping =
        number == CODE_MAP_NONE ? NULL : &task->mappings.items[number];
    uint32_t frame;
    if (mapping && mapping->file != CODE_NOWHERE) {
        frame =
            perf_code_frame(tasks->code, mapping->file, address - mapping->start + mapping->offset);
    } else {
        task->has_made_code |= mapping != NULL;
        frame = perf_code_frame(tasks->code, CODE_NOWHERE, address);
    }
    if (frame == CODE_STACK_NONE)
        map64_remove(&task->frame_of, address);
    else
        *known = frame;
    return frame;
}
