// SPDX-License-Identifier: Apache-2.0
//
// A recorder holds a pidfd of every process that it profiles, and /proc/PID/fdinfo shows the pid of
// a pidfd. So recorders are found without any file, whoever started them. The signal is sent only
// to a program of this name that waits for it, because it would kill others.
#include "producer/cli/heap_snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/str.h"
#include "producer/ground/proc_text.h"

#define TEXT_MAX 4096

static bool read_text(const char *path, char *ret, size_t size)
{
    ssize_t n = text_file_read_once(ret, size - 1, "/proc", "%s", path);
    ret[n > 0 ? n : 0] = 0;
    return n > 0;
}

static bool waits_for_signal(int pid)
{
    char path[64], text[TEXT_MAX], own[64], name[64];
    snprintf(path, sizeof(path), "/%d/comm", pid);
    if (!read_text(path, name, sizeof(name)) || !read_text("/self/comm", own, sizeof(own)) ||
        !str_eq(name, own))
        return false;
    snprintf(path, sizeof(path), "/%d/status", pid);
    const char *line = read_text(path, text, sizeof(text)) ? strstr(text, "\nSigBlk:") : NULL;
    return line && (strtoull(line + strlen("\nSigBlk:"), NULL, 16) >> (SIGUSR1 - 1) & 1);
}

static bool is_wanted(const struct heap_pid_vec *pids, uint64_t pid)
{
    vec_foreach(pids, wanted)
        if (*wanted == pid)
            return true;
    return pids->n == 0;
}

// Returns the first wanted process of which `recorder` holds a pidfd; 0: none.
static int profiled_by(int recorder, const struct heap_pid_vec *pids)
{
    char path[512], text[TEXT_MAX];
    int found = 0;
    snprintf(path, sizeof(path), "/proc/%d/fdinfo", recorder);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        snprintf(path, sizeof(path), "/%d/fdinfo/%s", recorder, entry->d_name);
        const char *line = read_text(path, text, sizeof(text)) ? strstr(text, "\nPid:") : NULL;
        long pid = line ? strtol(line + strlen("\nPid:"), NULL, 10) : 0;
        if (pid > 0 && is_wanted(pids, (uint64_t)pid))
            found = (int)pid;
    }
    if (dir)
        closedir(dir);
    return found;
}

int heap_snapshot_ask(const struct heap_pid_vec *pids, void (*told)(int recorder, int profiled),
                      size_t *ret_n, struct err *err)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return err_errno(err, -errno, "/proc");
    int r = 0;
    *ret_n = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        int pid = atoi(entry->d_name);
        if (pid <= 0 || pid == getpid() || !waits_for_signal(pid))
            continue;
        int profiled = profiled_by(pid, pids);
        if (!profiled)
            continue;
        if (kill(pid, SIGUSR1) < 0) {
            r = err_errno(err, -errno, "recorder %d", pid);
            continue;
        }
        told(pid, profiled);
        ++*ret_n;
    }
    closedir(dir);
    return *ret_n > 0 ? 0 : r;
}
