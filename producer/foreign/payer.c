// SPDX-License-Identifier: Apache-2.0
//
// The real uid belongs to the user who started the process. The owner of /proc/PID is less
// reliable: it is root for each process that forbids tracing.
//
// newuidmap gives one user 65536 uids, so budgets by uid alone would limit nothing. The kernel
// tells the owner of a user namespace, in the numbers of the asking namespace. nsfs answers all
// look-ups here; the examined process has no part in them. A process that is gone has no namespace,
// and a set-user-ID program with a subordinate uid can leave its namespace. For these, /etc/subuid
// tells which uids belong together.
#include "producer/foreign/payer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/foreign/process_file.h"
#include "producer/foreign/subuids.h"

#define STATUS_MAX 8192
#define DEPTH_MAX  33 // the kernel nests at most 32 levels

static bool is_same(int fd, const struct stat *st)
{
    struct stat of_fd;
    return fstat(fd, &of_fd) == 0 && of_fd.st_dev == st->st_dev && of_fd.st_ino == st->st_ino;
}

struct ids_line {
    uint64_t real, effective, file; // the first, the second and the fourth number
};

static struct ids_line take_ids(struct span line)
{
    struct ids_line ret = {0};
    uint64_t id = 0;
    for (int i = 0; i < 4 && span_take_u64(&line, &id); i++) {
        ret.real = i == 0 ? id : ret.real;
        ret.effective = i == 1 ? id : ret.effective;
        ret.file = id;
    }
    return ret;
}

static bool read_ids(const char *proc, int32_t pid, struct ids_line *ret_uid,
                     struct ids_line *ret_gid)
{
    char text[STATUS_MAX];
    bool is_found = false;
    *ret_uid = *ret_gid = (struct ids_line){0};
    ssize_t n = text_file_read_once(text, sizeof(text), proc, "/%d/status", pid);
    struct span rest = span_over(text, n > 0 ? (size_t)n : 0), line;
    while (span_take_line(&rest, &line)) {
        if (span_take_prefix(&line, "Uid:")) {
            *ret_uid = take_ids(line);
            is_found = true;
        } else if (span_take_prefix(&line, "Gid:")) {
            *ret_gid = take_ids(line);
        }
    }
    return is_found;
}

int foreign_ids_of(const char *proc, int32_t pid, struct foreign_ids *ret)
{
    struct ids_line uid, gid;
    if (!read_ids(proc, pid, &uid, &gid))
        return -ESRCH;
    *ret = (struct foreign_ids){(uid_t)uid.file, (gid_t)gid.file};
    return 0;
}

// Returns the user who made the outermost namespace between `fd` (owned) and the namespace of this
// process. Returns `otherwise` if the two are the same, or `fd` is not below ours.
static uid_t owner_of(int fd, uid_t otherwise)
{
    struct stat own;
    uid_t owner = otherwise;
    if (stat("/proc/self/ns/user", &own) < 0) {
        close_fd(fd);
        return otherwise;
    }
    for (int depth = 0; depth < DEPTH_MAX && !is_same(fd, &own); depth++) {
        uid_t of_this;
        int parent = ioctl(fd, NS_GET_PARENT);
        if (parent < 0 || ioctl(fd, NS_GET_OWNER_UID, &of_this) < 0) {
            close_fd(parent);
            owner = otherwise;
            break;
        }
        owner = of_this;
        close_fd(fd);
        fd = parent;
    }
    close_fd(fd);
    return owner;
}

static uid_t together(uid_t uid)
{
    static struct subuids known; // used only in the loop's thread
    if (uid == 0)
        return uid;
    subuids_follow(&known, "/etc/subuid");
    return subuids_number(&known, uid);
}

// Returns the user who made the namespace of the process; `uid` if the process is gone.
static uid_t namespace_owner(const char *proc, int32_t pid, uid_t uid)
{
    struct process_file users;
    return process_file_open(&users, proc, pid, "ns/user", 0) < 0 ? uid : owner_of(users.fd, uid);
}

uint64_t foreign_payer(const char *proc, int32_t pid, uid_t uid)
{
    struct ids_line uids, gids;
    if (read_ids(proc, pid, &uids, &gids))
        uid = (uid_t)uids.real;
    uid_t owner = namespace_owner(proc, pid, uid);
    return together(owner == 0 ? uid : owner);
}

uint64_t foreign_payer_of_uid(const char *proc, int32_t pid)
{
    struct ids_line uids, gids;
    return read_ids(proc, pid, &uids, &gids) ? together((uid_t)uids.real) : 0;
}

uint64_t foreign_client_payer(const char *proc, int32_t pid, uid_t uid)
{
    struct ids_line uids, gids;
    uid_t owner = uid;
    if (uid == 0 || uid == geteuid())
        return uid;
    if (pid > 0 && read_ids(proc, pid, &uids, &gids) && uids.effective == uid)
        owner = namespace_owner(proc, pid, (uid_t)uids.real);
    return together(owner == 0 || owner == geteuid() ? uid : owner);
}
