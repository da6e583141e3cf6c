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

static int open_beside(struct output_file *file, struct err *err)
{
    int r = working_folder_make(file->place.path, err, &file->folder);
    if (r == 0)
        r = working_file_make(&file->folder, "output", err, &file->working);
    if (r < 0)
        return output_place_error(&file->place, r, err);
    file->fd = open(file->working, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return file->fd < 0 ? err_errno(err, -errno, "%s", file->path) : 0;
}

int output_file_open(struct output_file *file, const char *path, struct err *err)
{
    struct stat st;
    *file = OUTPUT_FILE_INIT;
    file->fd = STDOUT_FILENO;
    if (!path || str_eq(path, "-"))
        return 0;
    file->path = path;
    file->fd = -1;
    int r = output_place_find(path, true, &file->place, err); // a link stays a link
    if (r < 0)
        return r;
    const struct path_end *end = &file->place.end;
    int own = end->is_magic ? 0 : AT_SYMLINK_NOFOLLOW;
    if (fstatat(end->folder, end->name, &st, own) < 0 ? errno == ENOENT
                                                      : S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
        return open_beside(file, err);
    file->fd = openat(end->folder, end->name,
                      O_WRONLY | O_CLOEXEC | O_NOCTTY | (end->is_magic ? 0 : O_NOFOLLOW));
    return file->fd < 0 ? err_errno(err, -errno, "%s", path) : 0;
}

// Opens an output for output_file_write_here(). rename() replaces a link, and a file that another
// process has made meanwhile.
static int output_file_open_here(struct output_file *file, const char *path, struct err *err)
{
    struct stat st;
    *file = OUTPUT_FILE_INIT;
    file->path = path;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return err_set(err, -EEXIST, "%s: not a regular file (remove it)", path);
    int r = output_place_find(path, false, &file->place, err);
    return r < 0 ? r : open_beside(file, err);
}

int output_file_publish(struct output_file *file, struct err *err)
{
    if (!file->working)
        return 0;
    int r = working_file_publish(file->working, file->place.path, false, err);
    return output_place_error(&file->place, r, err);
}

typedef int (*open_fn)(struct output_file *file, const char *path, struct err *err);

static int write_by(open_fn open_output, const char *path, output_fill_fn fill, void *userdata)
{
    CLEANUP(output_file_done) struct output_file file = OUTPUT_FILE_INIT;
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
    output_place_done(&file->place);
}

const char *output_file_name(const struct output_file *file)
{
    return file->path ? file->path : "standard output";
}
