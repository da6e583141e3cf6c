// SPDX-License-Identifier: Apache-2.0
//
// A pid may be used again: the start time tells processes apart. A process that is no target now
// may become one by executing another program, so it is looked at each time.
#include "producer/sources/heap/heap_targets.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/str.h"
#include "producer/sources/heap/heap_attach.h"
#include "producer/sources/proc_text.h"

#define TEXT_MAX 4096

// Field 22 of /proc/PID/stat; what is in parentheses may hold anything.
static uint64_t start_time(const char *proc, int32_t pid)
{
    char text[TEXT_MAX];
    ssize_t n = text_file_read_once(text, sizeof(text) - 1, proc, "/%d/stat", pid);
    text[n > 0 ? n : 0] = 0;
    const char *rest = strrchr(text, ')');
    if (!rest)
        return 0;
    struct span span = span_over(rest + 1, strlen(rest + 1)), word;
    for (int field = 3; field < 22; field++)
        if (!span_take_word(&span, &word))
            return 0;
    uint64_t ticks = 0;
    span_take_u64(&span, &ticks);
    return ticks + 1;
}

nsec_t heap_targets_began(const char *proc, int32_t pid)
{
    uint64_t started = start_time(proc, pid), ticks_a_second = (uint64_t)sysconf(_SC_CLK_TCK);
    if (started == 0 || started > UINT64_MAX / NSEC_PER_SEC)
        return 0;
    return (nsec_t)((started - 1) * NSEC_PER_SEC / ticks_a_second);
}

static uint64_t anonymous_kb(const char *proc, int32_t pid)
{
    char text[TEXT_MAX];
    uint64_t total = 0, kb;
    ssize_t n = text_file_read_once(text, sizeof(text), proc, "/%d/status", pid);
    struct span rest = span_over(text, n > 0 ? (size_t)n : 0), line;
    while (span_take_line(&rest, &line))
        if ((span_take_prefix(&line, "RssAnon:") || span_take_prefix(&line, "VmSwap:")) &&
            span_take_u64(&line, &kb))
            total += kb;
    return total;
}

static bool is_target(const struct heap_settings *settings, const char *proc, int32_t pid)
{
    char text[TEXT_MAX];
    ssize_t n = text_file_read_once(text, sizeof(text) - 1, proc, "/%d/cmdline", pid);
    text[n > 0 ? n : 0] = 0;
    if (n <= 0 || !heap_settings_match(settings, pid, text)) // threads of the kernel have none
        return false;
    if (str_ends_with(text, "/" HEAP_ATTACH_HELPER) ||
        str_ends_with(text, "/" HEAP_ATTACH_JAVA_HELPER)) // with `all`
        return false;
    return settings->min_anonymous_kb == 0 || anonymous_kb(proc, pid) >= settings->min_anonymous_kb;
}

bool heap_targets_look(struct heap_targets *targets, const struct heap_settings *settings,
                       const char *proc,
                       enum heap_target_answer (*found)(void *userdata, int32_t pid),
                       void *userdata)
{
    DIR *dir = opendir(proc);
    bool all_done = true;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        int32_t pid = (int32_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || pid == getpid() || !is_target(settings, proc, pid))
            continue;
        uint64_t started = start_time(proc, pid);
        const uint64_t *seen = map64_find(&targets->seen, (uint64_t)pid);
        if (started == 0 || (seen && *seen == started))
            continue;
        if (found(userdata, pid) == HEAP_TARGET_DONE)
            map64_set(&targets->seen, (uint64_t)pid, started);
        else
            all_done = false;
    }
    if (dir)
        closedir(dir);
    return all_done;
}

void heap_targets_done(struct heap_targets *targets)
{
    map64_done(&targets->seen);
}
