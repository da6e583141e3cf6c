// SPDX-License-Identifier: Apache-2.0
//
// The root directory of a process and its map are held open: both can be read after the process has
// ended, even from a mount namespace of its own. The map's name contains the pid that the process
// itself sees. Until a map is first found, the process may change its user, its name, and its root.
//
// /tmp is open to all users, so a file there is checked: it must be a regular file of the process's
// own user or of root, not a link, and not older than the process. An older file was left by an
// earlier process with the same pid. The file is opened with the process's own rights: otherwise a
// process could mount any file in the place of its map, and have root read the file.
#include "producer/sources/perf_map/perf_map_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "producer/foreign/path.h"
#include "producer/foreign/payer.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/ids.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"

#define TEXT_MAX 4096
#define SLACK_S  2 // file-system clocks are coarse

// Returns the last number of NSpid: the pid in the innermost namespace.
static int32_t inner_pid(const char *proc, int32_t pid)
{
    char text[TEXT_MAX];
    struct span status = text_file_span(text, sizeof(text), proc, "/%d/status", pid);
    struct span ids = span_value_of(status, "NSpid:");
    uint64_t last = (uint64_t)pid;
    while (span_take_u64(&ids, &last))
        continue;
    return last <= INT32_MAX ? (int32_t)last : pid;
}

// An app's process is named after its package, perhaps followed by :PART.
static void package_read(const char *proc, int32_t pid, char *ret, size_t size)
{
    char text[TEXT_MAX];
    process_file_span(text, sizeof(text), proc, pid, "cmdline");
    size_t length = strcspn(text, ":");
    bool is_name = length > 0 && length < size && strchr(text, '.') && !memchr(text, '/', length) &&
                   text[0] != '.';
    snprintf(ret, size, "%.*s", is_name ? (int)length : 0, text);
}

int perf_map_process_read(struct perf_map_process *process, const char *proc, int32_t pid)
{
    struct foreign_ids ids;
    struct process_life life;
    if (process_life_in_time(proc, pid, &life) < 0 || foreign_ids_of(proc, pid, &ids) < 0)
        return -ESRCH;
    int64_t booted = (nsec_now(CLOCK_REALTIME) - nsec_now(CLOCK_BOOTTIME)) / NSEC_PER_SEC;
    *process = (struct perf_map_process){
        .pid = pid,
        .inner_pid = inner_pid(proc, pid),
        .start_ticks = life.start_ticks,
        .start_realtime = booted + (int64_t)life.start_ticks / sysconf(_SC_CLK_TCK),
        .uid = ids.uid,
        .gid = ids.gid,
    };
    return 0;
}

int perf_map_file_open(struct perf_map_file *file, const char *proc,
                       const struct perf_map_process *process, int root_fd)
{
    *file =
        (struct perf_map_file){.process = *process, .fd = -1, .times_fd = -1, .root_fd = root_fd};
    package_read(proc, process->pid, file->package, sizeof(file->package));
    if (root_fd < 0)
        file->root_fd = foreign_root(proc, process->pid);
    int r = file->root_fd < 0 ? file->root_fd : 0;
    return r == -ENOENT ? -ESRCH : r;
}

void perf_map_file_refresh(struct perf_map_file *file, const char *proc)
{
    struct perf_map_process process;
    struct perf_map_file now;
    if (file->fd >= 0 || perf_map_process_read(&process, proc, file->process.pid) < 0 ||
        process.start_ticks != file->process.start_ticks)
        return;
    if (perf_map_file_open(&now, proc, &process, -1) == 0) {
        close_fd(file->root_fd);
        *file = now;
    } else {
        perf_map_file_close(&now);
    }
}

// Opens a file below the process's root. Links are followed only within the root, and not at the
// end of the path.
static int open_below(struct perf_map_file *file, const char *path, struct stat *ret_st)
{
    const struct perf_map_process *process = &file->process;
    const uid_t owners[] = {process->uid, 0};
    const struct foreign_want want = {.type = S_IFREG,
                                      .owners = owners,
                                      .n_owners = 2,
                                      .modified_earliest = process->start_realtime - SLACK_S};
    struct foreign_ids own;
    bool is_other = process->uid != geteuid() && geteuid() == 0;
    int r = is_other ? foreign_ids_take(process->uid, process->gid, &own) : 0;
    file->refused = r < 0;
    if (r < 0)
        return r;
    int fd = foreign_open(file->root_fd, path, O_NOFOLLOW, &want, ret_st);
    if (is_other)
        foreign_ids_return(&own);
    return fd;
}

// Opens the file of times beside the map at `path`. Returns -1 if the file is missing.
static int times_open(struct perf_map_file *file, const char *path)
{
    char times[PERF_MAP_PATH_MAX + 8];
    snprintf(times, sizeof(times), "%s.times", path);
    int fd = open_below(file, times, NULL);
    return fd < 0 ? -1 : fd;
}

// Opens the map at `path` unless it is being read already.
static bool place_try(struct perf_map_file *file, const char *path)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = open_below(file, path, &st);
    if (fd < 0)
        return false;
    bool is_same = file->fd >= 0 && st.st_dev == file->device && st.st_ino == file->inode &&
                   (uint64_t)st.st_size >= file->offset;
    if (is_same)
        return false;
    close_fd(file->fd);
    file->fd = steal_fd(&fd);
    file->device = st.st_dev;
    file->inode = st.st_ino;
    file->offset = 0;
    close_fd(file->times_fd);
    file->times_fd = times_open(file, path);
    file->times_offset = 0;
    snprintf(file->path, sizeof(file->path), "/%s", path);
    return true;
}

bool perf_map_file_find(struct perf_map_file *file)
{
    char path[PERF_MAP_PATH_MAX - 1];
    if (file->fd >= 0)
        return place_try(file, file->path + 1);
    snprintf(path, sizeof(path), "tmp/perf-%d.map", file->process.inner_pid);
    if (place_try(file, path))
        return true;
    snprintf(path, sizeof(path), "data/data/%s/perf-%d.map", file->package,
             file->process.inner_pid);
    if (file->package[0] && place_try(file, path))
        return true;
    snprintf(path, sizeof(path), "data/local/tmp/perf-%d.map", file->process.inner_pid);
    return place_try(file, path);
}

static size_t lines_read(int fd, uint64_t offset, char *buffer, size_t size, bool last)
{
    ssize_t n = fd < 0 ? 0 : pread(fd, buffer, size, (off_t)offset);
    if (n <= 0)
        return 0;
    const char *newline = memrchr(buffer, '\n', (size_t)n);
    if (newline)
        return (size_t)(newline - buffer) + (size_t)1;
    // A line that fills the buffer is cut: it is not a symbol.
    return last || (size_t)n == size ? (size_t)n : 0;
}

size_t perf_map_file_read(const struct perf_map_file *file, char *buffer, size_t size, bool last)
{
    return lines_read(file->fd, file->offset, buffer, size, last);
}

size_t perf_map_times_read(const struct perf_map_file *file, char *buffer, size_t size, bool last)
{
    return lines_read(file->times_fd, file->times_offset, buffer, size, last);
}

static uint64_t left_behind(int fd, uint64_t offset)
{
    struct stat st;
    bool has_more = fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size > offset;
    return has_more ? (uint64_t)st.st_size - offset : 0;
}

uint64_t perf_map_file_left(const struct perf_map_file *file)
{
    return left_behind(file->fd, file->offset) + left_behind(file->times_fd, file->times_offset);
}

void perf_map_file_close(struct perf_map_file *file)
{
    file->fd = close_fd(file->fd);
    file->times_fd = close_fd(file->times_fd);
    file->root_fd = close_fd(file->root_fd);
}
