// SPDX-License-Identifier: Apache-2.0
//
// If the process cannot drop a right, confine() fails. A failure to set the OOM score is ignored.
#include "converter/cli/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/text.h"

#define NOBODY      65534
#define DATA_MAX    ((rlim_t)512 << 20)
#define FILE_MAX    ((rlim_t)1 << 30)
#define CPU_SECONDS 60

static int limit_set(int resource, rlim_t value)
{
    struct rlimit limit = {value, value}, old;
    if (getrlimit(resource, &old) == 0 && old.rlim_max < value)
        limit = (struct rlimit){old.rlim_max, old.rlim_max};
    return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

// Sets the highest score. A child of a recorder that the OOM killer must spare would otherwise keep
// the recorder's score.
static void be_killed_first(void)
{
    CLEANUP(close_fdp) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    const struct text score = TEXT("1000");
    ssize_t n = fd < 0 ? 0 : write(fd, score.at, score.size);
    (void)n;
}

static int rights_drop(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return -errno;
    return setuid(0) == 0 ? -EPERM : 0;
}

// Forgets TMPDIR if the process has no access to this folder: root's folder may be closed to the
// user nobody.
static void temporary_folder_check(void)
{
    const char *folder = getenv("TMPDIR");
    if (folder && access(folder, W_OK | X_OK) < 0)
        unsetenv("TMPDIR");
}

int confine(struct err *err)
{
    be_killed_first();
    int r = limit_set(RLIMIT_CORE, 0);
    if (r == 0)
        r = limit_set(RLIMIT_DATA, DATA_MAX);
    if (r == 0)
        r = limit_set(RLIMIT_FSIZE, FILE_MAX);
    if (r == 0)
        r = limit_set(RLIMIT_CPU, CPU_SECONDS);
    if (r == 0)
        r = rights_drop();
    if (r == 0)
        temporary_folder_check();
    if (r < 0)
        err_errno(err, r, "--confined: cannot give up rights");
    if (r == -EPERM)
        err_hint(err, r, "as a part of the systemd unit, mmsql needs heap.conf");
    return r;
}
