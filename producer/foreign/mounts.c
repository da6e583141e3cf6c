// SPDX-License-Identifier: Apache-2.0
//
// The kernel gives the number of a mount, and of a device, to another one only after the end of the
// first. The held file keeps both alive. A list is therefore read, or known to be unchanged, after
// the file is held: poll() of mountinfo tells of changes.
#include "producer/foreign/mounts.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"

#define LIST_BYTES_MAX ((size_t)4 << 20) // the rest of a longer list is not known

static void list_clear(struct mount_list *list)
{
    process_file_close(&list->file);
    map64_clear(&list->devices);
}

static bool is_unchanged(const struct mount_list *list)
{
    struct pollfd changes = {.fd = list->file.fd, .events = POLLPRI};
    return list->file.fd >= 0 && poll(&changes, 1, 0) == 0;
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

static int text_read(struct process_file *file, struct strbuf *text)
{
    char piece[16384];
    ssize_t n;
    while ((n = process_file_read(file, piece, sizeof(piece))) > 0 && text->size < LIST_BYTES_MAX)
        strbuf_add(text, piece, (size_t)n);
    return n < 0 ? (int)n : text->failed ? -ENOMEM : 0;
}

// Opens the file before each reading, so that changes during the reading are noticed.
static int list_read(struct mount_list *list, const char *proc, int32_t pid)
{
    list_clear(list);
    struct strbuf text CLEANUP(strbuf_done) = {0};
    int r = process_file_open(&list->file, proc, pid, "mountinfo", 0);
    if (r == 0)
        r = text_read(&list->file, &text);
    struct span rest = span_over(text.text, r == 0 ? text.size : 0);
    for (struct span line; r == 0 && span_take_line(&rest, &line);)
        r = line_add(list, line);
    if (r < 0)
        list_clear(list);
    return r;
}

static int list_renew(struct mount_list *list, const char *proc, int32_t pid, bool *ret_changed)
{
    if (list->file.pid == pid && is_unchanged(list))
        return 0;
    *ret_changed = true;
    return list_read(list, proc, pid);
}

static int devices_add(struct foreign_mounts *mounts, const struct mount_list *list)
{
    size_t cursor = 0;
    int r = 0;
    for (const struct map64_slot *slot; r == 0 && (slot = map64_next(&list->devices, &cursor));)
        r = map64_set(&mounts->devices, slot->value, 0);
    return r;
}

// A namespace of pids may have no process 1 that can be read: then its list stays empty.
static int trusted_renew(struct foreign_mounts *mounts)
{
    bool changed = false;
    int r = list_renew(&mounts->own, "/proc", getpid(), &changed);
    int of_first = list_renew(&mounts->first, mounts->proc, 1, &changed);
    if (process_file_is_late(of_first))
        return of_first;
    if (r < 0 || !changed)
        return r;
    map64_clear(&mounts->devices);
    r = devices_add(mounts, &mounts->own);
    return r < 0 ? r : devices_add(mounts, &mounts->first);
}

static bool mount_number(int fd, uint64_t *ret)
{
    char text[512];
    struct span info = text_file_span(text, sizeof(text), "/proc", "/self/fdinfo/%d", fd);
    struct span number = span_value_of(info, "mnt_id:");
    return span_take_u64(&number, ret);
}

int foreign_mounts_judge(struct foreign_mounts *mounts, int32_t pid, int fd)
{
    uint64_t number;
    bool changed = false;
    if (!mount_number(fd, &number))
        return -EXDEV;
    int r = trusted_renew(mounts);
    if (r < 0 || number == mounts->memory || map64_find(&mounts->own.devices, number) ||
        map64_find(&mounts->first.devices, number))
        return r;
    r = list_renew(&mounts->other, mounts->proc, pid, &changed);
    if (r == 0 && !changed && !map64_find(&mounts->other.devices, number))
        r = list_read(&mounts->other, mounts->proc, pid); // the process is in another namespace now
    if (r < 0)
        return r;
    const uint64_t *device = map64_find(&mounts->other.devices, number);
    return device && map64_find(&mounts->devices, *device) ? 0 : -EXDEV;
}

void foreign_mounts_init(struct foreign_mounts *mounts, const char *proc)
{
    const struct mount_list none = {.file = {.fd = -1}};
    *mounts = (struct foreign_mounts){.proc = proc, .own = none, .first = none, .other = none};
    CLEANUP(close_fdp) int memory = memfd_create("", MFD_CLOEXEC);
    if (memory < 0 || !mount_number(memory, &mounts->memory))
        mounts->memory = 0;
}

void foreign_mounts_done(struct foreign_mounts *mounts)
{
    struct mount_list *const lists[] = {&mounts->own, &mounts->first, &mounts->other};
    for (size_t i = 0; i < 3; i++) {
        process_file_close(&lists[i]->file);
        map64_done(&lists[i]->devices);
    }
    map64_done(&mounts->devices);
}
