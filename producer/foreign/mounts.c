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
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/foreign/helper.h"
#include "producer/ground/line_reader.h"
#include "producer/ground/proc_text.h"

// The rest of a longer list is not known, nor is a longer line. A user who may mount FUSE file
// systems makes a thousand lines of a few kilobytes.
#define TRUSTED_BYTES_MAX ((uint64_t)256 << 20)
#define OTHER_BYTES_MAX   ((uint64_t)128 << 10)
#define OTHER_READS_MAX   4 // within OTHER_PERIOD
#define OTHER_PERIOD      NSEC_PER_SEC
#define OTHER_UNUSED_MAX  NSEC_PER_SEC
#define RENEW_PAUSE_MAX   NSEC_PER_SEC
#define RENEW_SHARE       10
#define UNUSED_MAX        (30 * NSEC_PER_SEC) // longer than most pauses between scans
#define REFUSED_MAX       (10 * NSEC_PER_SEC) // until a mount that is not trusted is judged again
#define HELD_EACH         NSEC_PER_SEC        // until another file of the mount is held

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

// A line of mountinfo: number, number of the parent, MAJOR:MINOR, root, mount point, options, more
// options, "-", type, source, options of the file system.
struct mount_line {
    uint64_t number;
    struct span device, place, type, options;
};

static bool line_parse(struct span line, struct mount_line *ret)
{
    struct span word;
    uint64_t parent;
    *ret = (struct mount_line){0};
    if (!span_take_u64(&line, &ret->number) || !span_take_u64(&line, &parent) ||
        !span_take_word(&line, &ret->device))
        return false;
    if (span_take_word(&line, &word)) // the root
        span_take_word(&line, &ret->place);
    while (span_take_word(&line, &word) && !span_eq(word, "-"))
        continue;
    if (span_take_word(&line, &ret->type) && span_take_word(&line, &word))
        span_take_word(&line, &ret->options);
    return true;
}

// Returns whether the line is of a FUSE file system of a user, or may be.
static bool is_of_user(const struct mount_line *line)
{
    struct span type = line->type, options = line->options;
    uint64_t uid;
    if (!span_take_prefix(&type, "fuse"))
        return false;
    while (span_size(options) > 0 && !span_take_prefix(&options, "user_id="))
        options.pos++;
    return !span_take_u64(&options, &uid) || (uid != 0 && uid != geteuid());
}

// Undoes the kernel's escapes (\040 for a blank). Returns the size.
static size_t unescape(struct span text, char *room, size_t size)
{
    size_t n = 0;
    for (const char *pos = text.pos; pos < text.end && n < size; n++) {
        bool escaped = *pos == '\\' && text.end - pos >= 4;
        room[n] =
            escaped ? (char)((pos[1] - '0') << 6 | (pos[2] - '0') << 3 | (pos[3] - '0')) : *pos;
        pos += escaped ? 4 : 1;
    }
    return n;
}

static int device_add(struct mount_list *list, const struct mount_line *line)
{
    struct span device = line->device;
    uint64_t major, minor;
    const char *colon = memchr(device.pos, ':', span_size(device));
    struct span after = {.pos = colon ? colon + 1 : device.end, .end = device.end};
    if (!span_take_u64(&device, &major) || !span_take_u64(&after, &minor))
        return 0;
    return map64_set(&list->devices, line->number, major << 32 | minor);
}

static int automount_add(struct trusted_mounts *trusted, const struct mount_line *line)
{
    char path[PATH_MAX];
    size_t n = unescape(line->place, path, sizeof(path));
    return map64_set(&trusted->automounts, table_hash_bytes(path, n), 0);
}

// `trusted` is NULL for the list of another process.
static int line_add(struct trusted_mounts *trusted, struct mount_list *list, struct span text)
{
    struct mount_line line;
    if (!line_parse(text, &line) || (trusted && is_of_user(&line)))
        return 0;
    int r = device_add(list, &line);
    if (r < 0 || !trusted || list != &trusted->own || !span_eq(line.type, "autofs"))
        return r;
    return automount_add(trusted, &line);
}

// Opens the file before each reading, so that changes during the reading are noticed. A line that
// ends after the limit is not read, nor is a part of the line. The caller clears the list of a
// failed reading.
static int list_read(struct trusted_mounts *trusted, struct mount_list *list, const char *path)
{
    const uint64_t max = trusted ? TRUSTED_BYTES_MAX : OTHER_BYTES_MAX;
    struct line_reader reader;
    struct span line;
    list_clear(list);
    list->fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = list->fd < 0 ? -errno : 1;
    line_reader_over(&reader, list->fd);
    while (r > 0 && (r = line_reader_next(&reader, &line)) > 0 &&
           line_reader_position(&reader) <= max) {
        int added = line_add(trusted, list, line);
        r = added < 0 ? added : 1;
    }
    return r < 0 ? r : 0;
}

static int devices_add(struct trusted_mounts *trusted, const struct mount_list *list)
{
    size_t cursor = 0;
    int r = 0;
    for (const struct map64_slot *slot; r == 0 && (slot = map64_next(&list->devices, &cursor));)
        r = map64_set(&trusted->devices, slot->value, 0);
    return r;
}

// Process 1 may be out of reach, or have the same mounts: then its list stays empty.
static int first_read(struct trusted_mounts *trusted)
{
    char path[256];
    struct stat own, first;
    list_clear(&trusted->first);
    snprintf(path, sizeof(path), "%s/1/ns/mnt", trusted->proc);
    if (stat("/proc/self/ns/mnt", &own) == 0 && stat(path, &first) == 0 &&
        own.st_ino == first.st_ino && own.st_dev == first.st_dev)
        return 0;
    snprintf(path, sizeof(path), "%s/1/mountinfo", trusted->proc);
    int r = list_read(trusted, &trusted->first, path);
    if (r < 0)
        list_clear(&trusted->first);
    return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r : 0;
}

static int trusted_read(struct trusted_mounts *trusted)
{
    map64_clear(&trusted->devices);
    map64_clear(&trusted->automounts);
    int r = list_read(trusted, &trusted->own, "/proc/self/mountinfo");
    r = r < 0 ? r : first_read(trusted);
    r = r < 0 ? r : devices_add(trusted, &trusted->own);
    return r < 0 ? r : devices_add(trusted, &trusted->first);
}

// Reads the lists of trusted mounts again if they have changed. Users can change the lists
// (fusermount): at most a tenth of the time is spent on reading them.
static int lists_renew(struct foreign_mounts *mounts)
{
    struct trusted_mounts *trusted = mounts->trusted;
    if (is_unchanged(&trusted->own) && (trusted->first.fd < 0 || is_unchanged(&trusted->first)))
        return 0;
    nsec_t begun = nsec_now(CLOCK_MONOTONIC);
    mounts->is_refused = begun < trusted->renew_earliest;
    if (mounts->is_refused)
        return -EAGAIN;
    int r = trusted_read(trusted);
    if (r < 0) {
        list_clear(&trusted->own);
        list_clear(&trusted->first);
    }
    nsec_t ended = nsec_now(CLOCK_MONOTONIC);
    nsec_t pause = (RENEW_SHARE - 1) * (ended - begun);
    trusted->renew_earliest = ended + (pause < RENEW_PAUSE_MAX ? pause : RENEW_PAUSE_MAX);
    return r;
}

// The open list may be all that is left of a mount namespace.
void foreign_mounts_forget_process(struct foreign_mounts *mounts)
{
    foreign_close_file(mounts->foreign, mounts->other.fd, mounts->payer);
    mounts->other.fd = -1;
    list_clear(&mounts->other);
}

static int other_renew(struct foreign_mounts *mounts, int32_t pid)
{
    char path[256];
    mounts->other_used = nsec_now(CLOCK_MONOTONIC);
    if (mounts->other_pid != pid) {
        foreign_mounts_forget_process(mounts);
        mounts->other_pid = pid;
        mounts->other_until = 0;
    }
    if (is_unchanged(&mounts->other))
        return 0;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (now >= mounts->other_until) {
        mounts->other_until = now + OTHER_PERIOD;
        mounts->n_other_reads = 0;
    }
    if (mounts->n_other_reads == OTHER_READS_MAX)
        return -EAGAIN;
    mounts->n_other_reads++;
    foreign_mounts_forget_process(mounts);
    snprintf(path, sizeof(path), "%s/%d/mountinfo", mounts->trusted->proc, (int)pid);
    int r = list_read(NULL, &mounts->other, path);
    if (r < 0)
        foreign_mounts_forget_process(mounts);
    return r;
}

int foreign_mount_number(int fd, uint64_t *ret)
{
    char text[512];
    ssize_t n = text_file_read_once(text, sizeof(text), "/proc", "/self/fdinfo/%d", fd);
    if (n < 0)
        return (int)n;
    struct span number = span_value_of(span_over(text, (size_t)n), "mnt_id:");
    return span_take_u64(&number, ret) ? 0 : -EXDEV;
}

// The held file may have been deleted, or be all that is left of a process's mounts. A file of a
// mount that is not trusted is not even examined, because its file system may not answer.
static void verdict_close(struct foreign_mounts *mounts, const struct mount_verdict *verdict)
{
    struct stat st;
    bool may_take_long =
        verdict->pid || verdict->result < 0 || (fstat(verdict->fd, &st) == 0 && st.st_nlink == 0);
    foreign_close_file(may_take_long ? mounts->foreign : NULL, verdict->fd, mounts->payer);
}

static void verdict_drop(struct foreign_mounts *mounts, struct mount_verdict *verdict)
{
    struct trusted_mounts *trusted = mounts->trusted;
    verdict_close(mounts, verdict);
    *verdict = trusted->verdicts[--trusted->n_verdicts];
}

// Returns the verdict on the mount, or NULL.
static struct mount_verdict *verdict_find(struct foreign_mounts *mounts, int32_t pid,
                                          uint64_t number, nsec_t now)
{
    struct trusted_mounts *trusted = mounts->trusted;
    for (size_t i = 0; i < trusted->n_verdicts; i++) {
        struct mount_verdict *verdict = &trusted->verdicts[i];
        if (verdict->number != number || (verdict->result < 0 && verdict->pid != pid))
            continue;
        if (verdict->result == 0 || now - verdict->judged < REFUSED_MAX)
            return verdict;
        verdict_drop(mounts, verdict);
        return NULL;
    }
    return NULL;
}

static struct mount_verdict *least_used(struct trusted_mounts *trusted)
{
    struct mount_verdict *least = &trusted->verdicts[0];
    for (size_t i = 1; i < trusted->n_verdicts; i++)
        if (trusted->verdicts[i].used < least->used)
            least = &trusted->verdicts[i];
    return least;
}

// Without a descriptor for the mount, the mount is judged again for the next file.
static void verdict_add(struct foreign_mounts *mounts, struct mount_verdict verdict, int fd)
{
    struct trusted_mounts *trusted = mounts->trusted;
    verdict.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (verdict.fd < 0)
        return;
    if (trusted->n_verdicts == FOREIGN_HELD_MAX)
        verdict_drop(mounts, least_used(trusted));
    trusted->verdicts[trusted->n_verdicts++] = verdict;
}

// A held file that is deleted keeps its space: another file of the mount takes its place soon.
static void verdict_use(struct foreign_mounts *mounts, struct mount_verdict *verdict, int fd,
                        nsec_t now)
{
    if (now - verdict->used > HELD_EACH) {
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (copy >= 0) {
            verdict_close(mounts, verdict);
            verdict->fd = copy;
        }
    }
    verdict->used = now;
}

static int judge_by_lists(struct foreign_mounts *mounts, int32_t pid, uint64_t number)
{
    const struct trusted_mounts *trusted = mounts->trusted;
    int r = lists_renew(mounts);
    if (r < 0 || map64_find(&trusted->own.devices, number) ||
        map64_find(&trusted->first.devices, number))
        return r;
    r = pid ? other_renew(mounts, pid) : -EXDEV;
    if (r < 0)
        return r;
    const uint64_t *device = map64_find(&mounts->other.devices, number);
    if (!device)
        return -ENODEV;
    return map64_find(&trusted->devices, *device) ? 0 : -EXDEV;
}

int foreign_mounts_judge(struct foreign_mounts *mounts, int32_t pid, int fd)
{
    struct trusted_mounts *trusted = mounts->trusted;
    uint64_t number;
    mounts->is_refused = false;
    int r = foreign_mount_number(fd, &number);
    if (r < 0 || (trusted->knows_memory && number == trusted->memory))
        return r;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    struct mount_verdict *known = verdict_find(mounts, pid, number, now);
    if (known) {
        verdict_use(mounts, known, fd, now);
        return known->result;
    }
    r = judge_by_lists(mounts, pid, number);
    if (r == 0 || r == -EXDEV || r == -ENODEV)
        verdict_add(mounts,
                    (struct mount_verdict){
                        .number = number, .pid = pid, .result = r, .judged = now, .used = now},
                    fd);
    return r;
}

void foreign_mounts_tidy(struct foreign_mounts *mounts)
{
    struct trusted_mounts *trusted = mounts->trusted;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    for (size_t i = trusted->n_verdicts; i-- > 0;)
        if (now - trusted->verdicts[i].used > UNUSED_MAX)
            verdict_drop(mounts, &trusted->verdicts[i]);
    if (now - mounts->other_used > OTHER_UNUSED_MAX)
        foreign_mounts_forget_process(mounts);
}

bool foreign_mounts_is_automount(const struct foreign_mounts *mounts, int folder, const char *name)
{
    char link[32], path[PATH_MAX + 1];
    if (mounts->trusted->automounts.n == 0)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
    ssize_t n = readlink(link, path, PATH_MAX);
    if (n <= 0)
        return false;
    n -= path[n - 1] == '/';
    if ((size_t)n + 1 + strlen(name) > PATH_MAX) // no key is of a longer path
        return false;
    n += snprintf(path + n, sizeof(path) - (size_t)n, "/%s", name);
    return map64_find(&mounts->trusted->automounts, table_hash_bytes(path, (size_t)n)) != NULL;
}

static struct trusted_mounts *all_trusted;

static void memory_learn(struct trusted_mounts *trusted)
{
    CLEANUP(close_fdp) int memory = memfd_create("", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (memory < 0) // an older kernel
        memory = memfd_create("", MFD_CLOEXEC);
    trusted->knows_memory = memory >= 0 && foreign_mount_number(memory, &trusted->memory) == 0;
}

static struct trusted_mounts *trusted_of(const char *proc)
{
    for (struct trusted_mounts *trusted = all_trusted; trusted; trusted = trusted->next)
        if (str_eq(trusted->proc, proc))
            return trusted;
    struct trusted_mounts *made = calloc(1, sizeof(*made));
    char *copy = strdup(proc);
    if (!made || !copy) {
        free(made);
        free(copy);
        return NULL;
    }
    made->proc = copy;
    made->own.fd = made->first.fd = -1;
    memory_learn(made);
    made->next = all_trusted;
    all_trusted = made;
    return made;
}

int foreign_mounts_init(struct foreign_mounts *mounts, const char *proc)
{
    *mounts = (struct foreign_mounts){.trusted = trusted_of(proc), .other = {.fd = -1}};
    if (!mounts->trusted)
        return -ENOMEM;
    mounts->trusted->n_users++;
    return 0;
}

static void list_done(struct mount_list *list)
{
    list_clear(list);
    map64_done(&list->devices);
}

static void trusted_free(struct foreign_mounts *mounts)
{
    struct trusted_mounts *trusted = mounts->trusted, **at = &all_trusted;
    while (*at != trusted)
        at = &(*at)->next;
    *at = trusted->next;
    while (trusted->n_verdicts > 0)
        verdict_drop(mounts, &trusted->verdicts[0]);
    list_done(&trusted->own);
    list_done(&trusted->first);
    map64_done(&trusted->devices);
    map64_done(&trusted->automounts);
    free(trusted->proc);
    free(trusted);
}

void foreign_mounts_done(struct foreign_mounts *mounts)
{
    if (!mounts->trusted)
        return;
    foreign_mounts_forget_process(mounts);
    list_done(&mounts->other);
    if (--mounts->trusted->n_users == 0)
        trusted_free(mounts);
    mounts->trusted = NULL;
}
