// SPDX-License-Identifier: Apache-2.0
//
// fsync() may take seconds. Therefore the disk thread calls it, and the config is armed again
// meanwhile. "wrote" is logged when the data and the name survive a power failure.
#include "producer/service/armed/armed_closing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

struct armed_closing {
    struct disk_job job;
    struct armed_closing *next;
    struct armed *armed; // borrowed
    char *title;         // owned
    char *folder, *stem; // owned
    struct armed_file file;
    uint64_t n_lost;
    int result;
};

// Reports a trace that is complete and on the disk.
static void trace_is_written(struct armed *armed, const char *title, const char *path,
                             uint64_t n_lost)
{
    const struct log *log = armed->options.log;
    armed->n_files++;
    if (n_lost > 0)
        log_warning(log,
                    "%s: wrote %s without %" PRIu64
                    " events (mmsql stats says where they were lost; a buffer that was full needs "
                    "a larger size_kb)",
                    title, path, n_lost);
    else
        log_info(log, "%s: wrote %s", title, path);
    if (armed->options.wrote)
        armed->options.wrote(armed->options.userdata, path);
}

static void settle(struct armed_closing *closing)
{
    struct armed *armed = closing->armed;
    struct armed_closing **at = &armed->closings;
    while (*at != closing)
        at = &(*at)->next;
    *at = closing->next;
    if (closing->result == 0)
        trace_is_written(armed, closing->title, closing->file.path, closing->n_lost);
    else
        log_error(armed->options.log, "%s: %s%s: %s (the next start of the daemon tries again)",
                  closing->title, closing->file.path,
                  closing->file.is_part ? ARMED_PART_SUFFIX " is complete, but cannot be renamed"
                                        : " is complete, but may not be on the disk",
                  strerror(-closing->result));
    armed_file_close(&closing->file);
    struct armed_folder folder = {
        .path = closing->folder,
        .stem = closing->stem,
        .max_files = armed->options.max_files,
        .max_bytes = armed->options.max_bytes,
    };
    armed_folder_prune(&folder, armed->options.log);
    free(closing->title);
    free(closing->folder);
    free(closing->stem);
    free(closing);
}

static void work(struct disk_job *job)
{
    struct armed_closing *closing = job->owner;
    closing->result = armed_file_complete(&closing->file);
}

static void done(struct disk_job *job)
{
    struct armed_closing *closing = job->owner;
    struct armed *armed = closing->armed;
    settle(closing);
    armed_wake_up(armed);
}

void armed_closing_begin(struct entry *entry, const struct armed_folder *folder,
                         struct armed_file *file, uint64_t n_lost)
{
    struct armed *armed = entry->armed;
    struct armed_closing *closing = calloc(1, sizeof(*closing));
    char *title = strdup(entry->title), *path = strdup(folder->path);
    char *stem = strdup(folder->stem);
    if (!closing || !title || !path || !stem) {
        // Without memory for the job, the file is completed at once.
        if (armed_file_complete(file) == 0)
            trace_is_written(armed, entry->title, file->path, n_lost);
        armed_file_close(file);
        free(closing);
        free(title);
        free(path);
        free(stem);
        return;
    }
    *closing = (struct armed_closing){
        .job = {.work = work, .done = done, .owner = closing},
        .next = armed->closings,
        .armed = armed,
        .title = title,
        .folder = path,
        .stem = stem,
        .file = *file,
        .n_lost = n_lost,
    };
    *file = ARMED_FILE_NONE;
    armed->closings = closing;
    if (armed->options.disk) {
        disk_run(armed->options.disk, &closing->job);
        return;
    }
    work(&closing->job);
    settle(closing);
}

const struct armed_closing *armed_closing_next(const struct armed_closing *closing)
{
    return closing->next;
}

void armed_closing_end(struct armed *armed)
{
    while (armed->closings) {
        struct armed_closing *closing = armed->closings;
        if (armed->options.disk)
            disk_wait(armed->options.disk, &closing->job);
        settle(closing);
    }
}
