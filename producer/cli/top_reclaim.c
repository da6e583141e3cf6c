// SPDX-License-Identifier: Apache-2.0
//
// Reads the kernel's text of the events of reclaim and compaction. Text costs more than the pages
// that a recording reads, so a sample reads at most READ_MAX bytes. In a storm the rest is dropped,
// and the view says so.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/cli/top.h"
#include "producer/sources/ftrace/trace_line.h"
#include "producer/sources/ftrace/tracefs.h"

#define READ_MAX  (256 << 10) // bytes for each sample
#define BUFFER_KB "256"

static const char *const events[] = {
    "vmscan/mm_vmscan_direct_reclaim_begin", "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_memcg_reclaim_begin",  "vmscan/mm_vmscan_memcg_reclaim_end",
    "compaction/mm_compaction_begin",        "compaction/mm_compaction_end",
};

struct top_reclaim {
    struct tracefs fs;
    const struct log *log;
    bool is_open;
    int pipe;  // -1: none
    bool lost; // events since the start
    struct top_task tasks[TOP_TASKS_MAX];
    size_t n;
    char kept[512]; // the start of a line whose end comes with the next read
    size_t n_kept;
};

struct top_reclaim *top_reclaim_new(void)
{
    struct top_reclaim *reclaim = calloc(1, sizeof(*reclaim));
    if (reclaim)
        reclaim->pipe = -1;
    return reclaim;
}

struct top_reclaim *top_reclaim_free(struct top_reclaim *reclaim)
{
    if (!reclaim)
        return NULL;
    close_fd(reclaim->pipe);
    if (reclaim->is_open)
        tracefs_close(&reclaim->fs, reclaim->log);
    free(reclaim);
    return NULL;
}

int top_reclaim_open(const char *tracefs, const char *proc, const struct log *log,
                     struct top_reclaim **ret, struct err *err)
{
    struct top_reclaim *reclaim = top_reclaim_new();
    const struct tracefs_options options = {
        .root = tracefs, .proc = proc, .state_dir = TRACEFS_STATE_DIR};
    char path[256];
    size_t n_on = 0;
    if (!reclaim)
        return err_errno(err, -ENOMEM, "reclaim");
    reclaim->log = log;
    int r = tracefs_open(&options, &reclaim->fs, err);
    reclaim->is_open = r == 0;
    if (r == 0)
        tracefs_change(&reclaim->fs, "buffer_size_kb", BUFFER_KB);
    for (size_t i = 0; i < ELEMENTS(events) && r == 0; i++) {
        snprintf(path, sizeof(path), "events/%s/enable", events[i]);
        n_on += tracefs_change(&reclaim->fs, path, "1") == 0; // a kernel may lack some events
    }
    if (r == 0 && n_on == 0)
        r = err_set(err, -ENOENT, "the kernel has no events of reclaim");
    if (r == 0) {
        snprintf(path, sizeof(path), "%s/trace_pipe", reclaim->fs.path);
        reclaim->pipe = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        r = reclaim->pipe < 0 ? err_errno(err, -errno, "%s", path) : 0;
    }
    if (r < 0)
        top_reclaim_free(reclaim);
    else
        *ret = reclaim;
    return r;
}

// The last name of a task counts: a task takes another name when it executes a program.
static struct top_task *task_of(struct top_reclaim *reclaim, int32_t pid, struct text name)
{
    struct top_task *least = NULL, *found = NULL;
    for (size_t i = 0; i < reclaim->n && !found; i++) {
        struct top_task *task = &reclaim->tasks[i];
        if (task->pid == pid)
            found = task;
        if (!least || task->took < least->took)
            least = task;
    }
    if (!found) {
        found = reclaim->n < TOP_TASKS_MAX ? &reclaim->tasks[reclaim->n++] : least;
        *found = (struct top_task){.pid = pid};
    }
    snprintf(found->name, sizeof(found->name), "%.*s", (int)name.size, name.at);
    return found;
}

void top_reclaim_line(struct top_reclaim *reclaim, const char *text, size_t size)
{
    struct trace_line line;
    if (!trace_line_parse(text, text + size, 0, NSEC_MAX, &line)) {
        const struct text mark = TEXT(" [LOST "); // "CPU:0 [LOST 12 EVENTS]"
        reclaim->lost |= memmem(text, size, mark.at, mark.size) != NULL;
        return;
    }
    bool begins = text_ends_with(line.event, TEXT("_begin"));
    bool ends = text_ends_with(line.event, TEXT("_end"));
    if (line.pid == 0 || (!begins && !ends))
        return;
    struct top_task *task = task_of(reclaim, line.pid, line.name);
    if (begins)
        task->began = line.time;
    if (!ends || !task->began)
        return;
    nsec_t took = line.time > task->began ? line.time - task->began : 0;
    task->began = 0;
    task->n++;
    if (__builtin_add_overflow(task->took, took, &task->took))
        task->took = NSEC_MAX;
    task->longest = took > task->longest ? took : task->longest;
}

void top_reclaim_read(struct top_reclaim *reclaim)
{
    char chunk[8192];
    size_t total = 0;
    while (reclaim->pipe >= 0 && total < READ_MAX) {
        memcpy(chunk, reclaim->kept, reclaim->n_kept);
        ssize_t n = read(reclaim->pipe, chunk + reclaim->n_kept, sizeof(chunk) - reclaim->n_kept);
        if (n <= 0)
            return;
        size_t size = reclaim->n_kept + (size_t)n;
        const char *line = chunk, *end = chunk + size, *newline;
        total += (size_t)n;
        while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
            top_reclaim_line(reclaim, line, (size_t)(newline - line));
            line = newline + 1;
        }
        reclaim->n_kept = (size_t)(end - line) < sizeof(reclaim->kept) ? (size_t)(end - line) : 0;
        memcpy(reclaim->kept, line, reclaim->n_kept);
    }
    if (reclaim->pipe >= 0 && total >= READ_MAX) { // a storm: the rest is not worth the time
        reclaim->lost = true;
        reclaim->n_kept = 0;
        tracefs_clear(&reclaim->fs);
    }
}

const struct top_task *top_reclaim_tasks(const struct top_reclaim *reclaim, size_t *ret_n,
                                         bool *ret_lost)
{
    *ret_n = reclaim->n;
    *ret_lost = reclaim->lost;
    return reclaim->tasks;
}
