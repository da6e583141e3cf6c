// SPDX-License-Identifier: Apache-2.0
//
// rename() replaces a file whole or not at all. Where what is in the old file is in the new one as
// well, and nowhere else, the new one is on the disk before it takes the name.
#include "converter/cli/working_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int working_file_make(const char *output, struct err *err, char **ret)
{
    char *path;
    if (asprintf(&path, "%s.XXXXXX", output) < 0)
        return err_errno(err, -ENOMEM, "%s", output);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        int r = err_errno(err, -errno, "%s", output);
        free(path);
        return r;
    }
    close_fd(fd);
    *ret = path;
    return 0;
}

uint64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int working_file_publish(const char *working, const char *output, bool sync, struct err *err)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    bool replaces = stat(output, &st) == 0;
    CLEANUP(close_fdp) int fd = open(working, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, replaces ? st.st_mode & 0777 : 0666 & ~mask) < 0 ||
        (sync && fdatasync(fd) < 0) || rename(working, output) < 0)
        return err_errno(err, -errno, "%s", output);
    return 0;
}
