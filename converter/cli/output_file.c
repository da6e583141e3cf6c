// SPDX-License-Identifier: Apache-2.0
//
// A folder beside the output holds the incomplete file, as in a conversion. The next run removes
// the folder of a killed process.
#include "converter/cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/cli/cli.h"

// Makes the working file for `target`.
static int open_beside(struct output_file *file, const char *target, struct err *err)
{
    int r = working_folder_make(target, err, &file->folder);
    if (r == 0)
        r = working_file_make(&file->folder, "output", err, &file->working);
    if (r < 0)
        return r;
    file->fd = open(file->working, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return file->fd < 0 ? err_errno(err, -errno, "%s", file->path) : 0;
}

int output_file_open(struct output_file *file, const char *path, struct err *err)
{
    struct stat st;
    *file = (struct output_file){.fd = STDOUT_FILENO, .folder = {.fd = -1}};
    if (!path || str_eq(path, "-"))
        return 0;
    file->path = path;
    file->fd = -1;
    int r = output_link_check(path, true, err);
    if (r < 0)
        return r;
    bool beside = stat(path, &st) < 0 ? errno == ENOENT : S_ISREG(st.st_mode);
    if (!beside) {
        file->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return file->fd < 0 ? err_errno(err, -errno, "%s", path) : 0;
    }
    file->target = realpath(path, NULL); // a link stays a link
    return open_beside(file, file->target ? file->target : path, err);
}

// rename() replaces a link. A file that comes in between is replaced, too.
static int output_file_open_here(struct output_file *file, const char *path, struct err *err)
{
    struct stat st;
    *file = (struct output_file){.path = path, .fd = -1, .folder = {.fd = -1}};
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return err_set(err, -EEXIST, "%s: not a regular file (remove it)", path);
    int r = output_link_check(path, false, err);
    return r < 0 ? r : open_beside(file, path, err);
}

int output_file_publish(struct output_file *file, struct err *err)
{
    const char *target = file->target ? file->target : file->path;
    return file->working ? working_file_publish(file->working, target, false, err) : 0;
}

typedef int (*open_fn)(struct output_file *file, const char *path, struct err *err);

static int write_by(open_fn open_output, const char *path, output_fill_fn fill, void *userdata)
{
    CLEANUP(output_file_done) struct output_file file = {.fd = -1, .folder = {.fd = -1}};
    struct err err = {0};
    int r = open_output(&file, path, &err);
    CLEANUP(fclosep) FILE *out = r == 0 ? fdopen(fcntl(file.fd, F_DUPFD_CLOEXEC, 3), "w") : NULL;
    if (out)
        r = fill(userdata, out, &err);
    if (r == 0 && (!out || fflush(out) != 0 || ferror(out)))
        r = err_errno(&err, -errno, "%s", output_file_name(&file));
    if (r == 0)
        r = output_file_publish(&file, &err);
    if (r < 0 && err.text[0])
        err_print(&err, "mmsql");
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

int output_file_write(const char *path, output_fill_fn fill, void *userdata)
{
    return write_by(output_file_open, path, fill, userdata);
}

int output_file_write_here(const char *path, output_fill_fn fill, void *userdata)
{
    return write_by(output_file_open_here, path, fill, userdata);
}

void output_file_done(struct output_file *file)
{
    if (file->path)
        file->fd = close_fd(file->fd);
    working_folder_remove(&file->folder);
    free(STEAL(file->working));
    free(STEAL(file->target));
}

const char *output_file_name(const struct output_file *file)
{
    return file->path ? file->path : "standard output";
}
