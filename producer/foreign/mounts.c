// SPDX-License-Identifier: Apache-2.0
//
// The kernel gives the number of a mount, and of a device, to another one only after the end of the
// first. The held file keeps both alive. A list is therefore read, or known to be unchanged, after
// the file is held: poll() of mountinfo tells of changes.
//
// A process does not hold up the reader of its mountinfo. But it can make its list as long as it
// likes, and change the list all the time.
#include "producer/foreign/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"

// The rest of a longer list is not known.
#define TRUSTED_BYTES_MAX ((size_t)4 << 20)
#define OTHER_BYTES_MAX   ((size_t)128 << 10)
#define OTHER_READS_MAX   4
#define RENEW_PAUSE_MAX   NSEC_PER_SEC
#define RENEW_SHARE       10

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static void list_clear(struct mount_list *list)
{
    list->fd = close_fd(list->fd);
    list->changed = false;
    map64_clear(&list->devices);
}

static bool is_unchanged(struct mount_list *list)
{
    struct pollfd changes = {.fd = list->fd, .events = POLLPRI};
    if (list->fd < 0)
        return false;
    list->changed = list->changed || poll(&changes, 1, 0) != 0;
    return !list->changed;
}

// Returns whether the line is of a FUSE file system of a user: after " - ", the type, the source
// and the options of the file system.
static bool is_of_user(struct span line)
{
    struct span word, type, source, options;
    uint64_t uid;
    while (span_take_word(&line, &word) && !span_eq(word, "-"))
        continue;
    if (!span_take_word(&line, &type) || !span_take_prefix(&type, "fuse") ||
        !span_take_word(&line, &source) || !span_take_word(&line, &options))
        return false;
    while (span_size(options) > 0 && !span_take_prefix(&options, "user_id="))
        options.pos++;
    return span_take_u64(&options, &uid) && uid != 0 && uid != geteuid();
}

// Adds a line: number, number of the parent, MAJOR:MINOR, ...
static int line_add(struct mount_list *list, struct span line)
{
    struct span device;
    uint64_t id, parent, major, minor;
    if (!span_take_u64(&line, &id) || !span_take_u64(&line, &parent) ||
        !span_take_word(&line, &device))
        return 0;
    const char *colon = memchr(device.pos, ':', span_size(device));
    struct span after = {.pos = colon ? colon + 1 : device.end, .end = device.end};
    if (!span_take_u64(&device, &major) || !span_take_u64(&after, &minor))
        return 0;
    return map64_set(&list->devices, id, major << 32 | minor);
}

static int text_read(int fd, struct strbuf *text, size_t max)
{
    char piece[16384];
    ssize_t n;
    while (text->size < max && (n = read(fd, piece, sizeof(piece))) > 0)
        strbuf_add(text, piece, (size_t)n);
    return text->failed ? -ENOMEM : 0;
}

// Opens the file before each reading, so that changes during the reading are noticed.
static int list_read(struct mount_list *list, const char *path, bool is_trusted)
{
    list_clear(list);
    struct strbuf text CLEANUP(strbuf_done) = {0};
    list->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (list->fd < 0)
        return -errno;
    int r = text_read(list->fd, &text, is_trusted ? TRUSTED_BYTES_MAX : OTHER_BYTES_MAX);
    struct span rest = span_whole_lines(span_over(text.text, r == 0 ? text.size : 0));
    for (struct span line; r == 0 && span_take_line(&rest, &line);)
        if (!is_trusted || !is_of_user(line))
            r = line_add(list, line);
    if (r < 0)
        list_clear(list);
    return r;
}

static int devices_add(struct foreign_mounts *mounts, const struct mount_list *list)
{
    size_t cursor = 0;
    int r = 0;
    for (const struct map64_slot *slot; r == 0 && (slot = map64_next(&list->devices, &cursor));)
        r = map64_set(&mounts->devices, slot->value, 0);
    return r;
}

// Process 1 may be out of reach, or have the same mounts: then its list stays empty.
static int first_read(struct foreign_mounts *mounts)
{
    char path[256];
    struct stat own, first;
    list_clear(&mounts->first);
    snprintf(path, sizeof(path), "%s/1/ns/mnt", mounts->proc);
    if (stat("/proc/self/ns/mnt", &own) == 0 && stat(path, &first) == 0 &&
        own.st_ino == first.st_ino && own.st_dev == first.st_dev)
        return 0;
    snprintf(path, sizeof(path), "%s/1/mountinfo", mounts->proc);
    int r = list_read(&mounts->first, path, true);
    return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r : 0;
}

static int trusted_read(struct foreign_mounts *mounts)
{
    map64_clear(&mounts->devices);
    int r = list_read(&mounts->own, "/proc/self/mountinfo", true);
    r = r < 0 ? r : first_read(mounts);
    r = r < 0 ? r : devices_add(mounts, &mounts->own);
    return r < 0 ? r : devices_add(mounts, &mounts->first);
}

bool foreign_mounts_changed(const struct foreign_mounts *mounts)
{
    return mounts->own.changed || mounts->first.changed;
}

// Users can change the lists (fusermount): at most a tenth of the time is spent on reading them.
int foreign_mounts_renew(struct foreign_mounts *mounts)
{
    if (is_unchanged(&mounts->own) && (mounts->first.fd < 0 || is_unchanged(&mounts->first)))
        return 0;
    nsec_t begun = nsec_now(CLOCK_MONOTONIC);
    if (begun < mounts->renew_earliest)
        return -EAGAIN;
    int r = trusted_read(mounts);
    if (r < 0) {
        list_clear(&mounts->own);
        list_clear(&mounts->first);
    }
    nsec_t ended = nsec_now(CLOCK_MONOTONIC);
    nsec_t pause = (RENEW_SHARE - 1) * (ended - begun);
    mounts->renew_earliest = ended + (pause < RENEW_PAUSE_MAX ? pause : RENEW_PAUSE_MAX);
    return r;
}

static int other_renew(struct foreign_mounts *mounts, int32_t pid)
{
    char path[256];
    if (mounts->other_pid != pid) {
        list_clear(&mounts->other);
        mounts->other_pid = pid;
        mounts->n_other_reads = 0;
    }
    if (is_unchanged(&mounts->other))
        return 0;
    if (mounts->n_other_reads++ >= OTHER_READS_MAX)
        return -ENODEV;
    snprintf(path, sizeof(path), "%s/%d/mountinfo", mounts->proc, (int)pid);
    return list_read(&mounts->other, path, false);
}

bool foreign_mount_number(int fd, uint64_t *ret)
{
    char text[512];
    struct span info = text_file_span(text, sizeof(text), "/proc", "/self/fdinfo/%d", fd);
    struct span number = span_value_of(info, "mnt_id:");
    return span_take_u64(&number, ret);
}

int foreign_mounts_judge(struct foreign_mounts *mounts, int32_t pid, int fd)
{
    uint64_t number;
    if (!foreign_mount_number(fd, &number))
        return -EXDEV;
    if (number == mounts->memory)
        return 0;
    int r = foreign_mounts_renew(mounts);
    if (r < 0 || map64_find(&mounts->own.devices, number) ||
        map64_find(&mounts->first.devices, number))
        return r;
    r = pid ? other_renew(mounts, pid) : -EXDEV;
    if (r < 0)
        return r;
    const uint64_t *device = map64_find(&mounts->other.devices, number);
    if (!device)
        return -ENODEV;
    return map64_find(&mounts->devices, *device) ? 0 : -EXDEV;
}

void foreign_mounts_begin(struct foreign_mounts *mounts)
{
    mounts->other_pid = 0;
}

void foreign_mounts_init(struct foreign_mounts *mounts, const char *proc)
{
    const struct mount_list none = {.fd = -1};
    *mounts = (struct foreign_mounts){.proc = proc, .own = none, .first = none, .other = none};
    CLEANUP(close_fdp) int memory = memfd_create("", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (memory < 0) // an older kernel
        memory = memfd_create("", MFD_CLOEXEC);
    if (memory < 0 || !foreign_mount_number(memory, &mounts->memory))
        mounts->memory = 0;
}

void foreign_mounts_done(struct foreign_mounts *mounts)
{
    struct mount_list *const lists[] = {&mounts->own, &mounts->first, &mounts->other};
    for (size_t i = 0; i < 3; i++) {
        list_clear(lists[i]);
        map64_done(&lists[i]->devices);
    }
    map64_done(&mounts->devices);
}
