// SPDX-License-Identifier: Apache-2.0
//
// A pid may be reused: the start time distinguishes processes. A process that is not a target now
// may become one by executing another program, so it is examined each time.
#include "producer/sources/heap/heap_targets.h"

#include <dirent.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"
#include "producer/sources/heap/heap_attach.h"

#define TEXT_MAX 4096

nsec_t heap_targets_began(const char *proc, int32_t pid)
{
    struct process_life life;
    uint64_t ticks_a_second = (uint64_t)sysconf(_SC_CLK_TCK);
    if (process_life_in_time(proc, pid, &life) < 0 || life.start_ticks > UINT64_MAX / NSEC_PER_SEC)
        return 0;
    return (nsec_t)(life.start_ticks * NSEC_PER_SEC / ticks_a_second);
}

static uint64_t anonymous_kb(const char *proc, int32_t pid)
{
    char text[TEXT_MAX];
    struct span status = text_file_span(text, sizeof(text), proc, "/%d/status", pid);
    return span_number_of(status, "RssAnon:") + span_number_of(status, "VmSwap:");
}

// Sets *is_late if the process cannot be read in time.
static bool is_target(const struct heap_settings *settings, const char *proc, int32_t pid,
                      bool *is_late)
{
    char text[TEXT_MAX];
    ssize_t size = process_file_text(text, sizeof(text), proc, pid, "cmdline");
    *is_late |= process_file_is_late(size);
    if (size <= 0 ||
        !heap_settings_match(settings, pid, text)) // kernel threads have no command line
        return false;
    if (str_ends_with(text, "/" HEAP_ATTACH_HELPER) ||
        str_ends_with(text, "/" HEAP_ATTACH_JAVA_HELPER)) // `all` selects helpers, too
        return false;
    return settings->min_anonymous_kb == 0 || anonymous_kb(proc, pid) >= settings->min_anonymous_kb;
}

bool heap_targets_look(struct heap_targets *targets, const struct heap_settings *settings,
                       const char *proc, bool (*found)(void *userdata, int32_t pid), void *userdata)
{
    DIR *dir CLEANUP(closedirp) = opendir(proc);
    bool all_done = true, is_late = false;
    for (int32_t pid; (pid = process_next(dir));) {
        if (pid == getpid() || !is_target(settings, proc, pid, &is_late))
            continue;
        struct process_life life;
        const uint64_t *seen = map64_find(&targets->seen, (uint64_t)pid);
        int r = process_life_in_time(proc, pid, &life);
        is_late |= process_file_is_late(r);
        if (r < 0 || life.ended || (seen && *seen == life.start_ticks))
            continue;
        if (found(userdata, pid))
            map64_set(&targets->seen, (uint64_t)pid, life.start_ticks);
        else
            all_done = false;
    }
    return all_done && !is_late;
}

void heap_targets_done(struct heap_targets *targets)
{
    map64_done(&targets->seen);
}
