// SPDX-License-Identifier: Apache-2.0
//
// `pintool lock` and `pintool preload`: apply a pinlist on any Linux. Locked pages stay as long as
// the process lives and maps them. Therefore the process then waits, for a time or for a signal.
// The process says when all pages are locked, because mlock(2) reads the pages in first. Preloading
// only reads: the pages may be evicted the next moment.
//
// If a file shrinks while it is locked, its pages go, but the process is not killed: nothing here
// touches the mapping.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/options.h"
#include "producer/pintool/pinlist_file.h"
#include "producer/pintool/pintool.h"
#include "producer/pintool/zip_source.h"
#include "producer/sources/residency/probe.h"

#define READ_BYTES ((size_t)256 << 10)

struct command_line {
    const char *list, *file;
    nsec_t time; // negative: until a signal
    bool quiet;
};

#define SETS(member) CLI_SETS(struct command_line, member)

static const struct cli_option lock_options[] = {
    {'t', "time", "TIME",
     "unlock the pages after TIME, as in 10s or 5m; default: at SIGINT or SIGTERM", SETS(time)},
    {'q', "quiet", NULL, "say nothing when all is locked", SETS(quiet)},
    {0},
};

static const struct cli_option preload_options[] = {
    {'q', "quiet", NULL, "say nothing when all is read", SETS(quiet)},
    {0},
};

static int take_name(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    struct command_line *line = userdata;
    (void)option;
    if (line->list && line->file)
        return err_set(err, -EINVAL, "\"%s\": a pinlist and a file are given already", value);
    *(line->list ? &line->file : &line->list) = value;
    return 0;
}

// A single name is an APK with its own list inside.
static int take_own_list(struct command_line *line, struct err *err)
{
    bool is_zip;
    if (str_eq(line->list, "-"))
        return err_set(err, -EINVAL, "a file is needed after the pinlist from standard input");
    int r = pinlist_file_is_zip(line->list, &is_zip);
    if (r < 0)
        return err_errno(err, r, "%s", line->list);
    if (!is_zip)
        return err_set(err, -EINVAL, "%s is not an APK, so a file is needed after it", line->list);
    line->file = line->list;
    return 0;
}

static int check(void *userdata, struct err *err)
{
    struct command_line *line = userdata;
    if (!line->list)
        return err_set(err, -EINVAL, "a pinlist and a file are needed, or an APK");
    int r = line->file ? 0 : take_own_list(line, err);
    if (r == 0 && str_eq(line->file, "-"))
        r = err_set(err, -EINVAL,
                    "\"-\": standard input has no pages of its own: name the file; ./- is the "
                    "file called -");
    return r;
}

// An open file, and its pages that a pinlist names.
struct listed_file {
    int fd;           // owned
    const char *path; // borrowed
    uint64_t size_bytes;
    uint64_t page_size;
    struct page_ranges pages; // owned; clipped to the file
    uint64_t n_missing_bytes; // named, but beyond the file's end
    struct err other_build;   // why the list is of another build; no text: no difference was found
};

static int clip(const struct page_ranges *bytes, struct listed_file *file)
{
    vec_foreach(bytes, range) {
        uint64_t start = range->start, end = range->end;
        if (end > file->size_bytes) {
            uint64_t from = start > file->size_bytes ? start : file->size_bytes;
            file->n_missing_bytes += end - from;
            end = from < end ? from : end;
        }
        if (start >= end)
            continue;
        uint64_t after = (end - 1) / file->page_size + 1;
        int r = page_ranges_append(&file->pages, start / file->page_size, after);
        if (r < 0)
            return r;
    }
    return 0;
}

// Compares the file with the build of the list. A file that is not a zip is never the build of a
// zip.
static int check_build(const char *list_path, const struct list_source *source,
                       struct listed_file *file, struct err *err)
{
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    CLEANUP(zipindex_done) struct zipindex zip = {0};
    int r = source->known ? residency_probe_new(RESIDENCY_AUTO, &probe) : 0;
    if (r == 0 && source->known)
        r = zip_source_index(probe, file->fd, file->size_bytes, file->path, &zip, NULL);
    if (r == 0 || r == -EBADMSG)
        r = list_source_check(source, &zip, list_path, file->path, 0, &file->other_build);
    else
        err_errno(err, r, "%s", file->path);
    return r < 0 ? r : 0;
}

static void listed_file_done(struct listed_file *file)
{
    file->fd = close_fd(file->fd);
    page_ranges_done(&file->pages);
}

// An APK stands for the pinlist inside it, "-" for standard input; see pinlist_file_read().
static int listed_file_open(const char *list_path, const char *path, struct listed_file *ret,
                            struct err *err)
{
    *ret =
        (struct listed_file){.fd = -1, .path = path, .page_size = (uint64_t)sysconf(_SC_PAGESIZE)};
    CLEANUP(pinlist_done) struct pinlist list = {0};
    CLEANUP(list_source_done) struct list_source source = {0};
    CLEANUP(page_ranges_done) struct page_ranges bytes = {0};
    int r = pinlist_file_read(list_path, &list, &source, err);
    if (r < 0)
        return r;
    r = pinlist_to_ranges(&list, &bytes);
    if (r < 0)
        return err_errno(err, r, "%s", list_path);
    struct stat st;
    r = residency_open(AT_FDCWD, path, &ret->fd, &st);
    if (r == -EINVAL)
        return err_set(err, r, "%s: not a regular file", path);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    ret->size_bytes = (uint64_t)st.st_size;
    r = clip(&bytes, ret);
    if (r < 0)
        err_errno(err, r, "%s", list_path);
    else
        r = check_build(list_path, &source, ret, err);
    if (r < 0)
        listed_file_done(ret);
    return r;
}

static uint64_t listed_file_bytes(const struct listed_file *file)
{
    return page_ranges_count(&file->pages) * file->page_size;
}

// Returns an exit code.
static int report(const char *what, const struct command_line *line, const struct listed_file *file)
{
    if (file->other_build.text[0])
        err_print(&file->other_build, PINTOOL);
    if (file->n_missing_bytes)
        fprintf(stderr, "%s: %s: %" PRIu64 " bytes lie beyond the end of %s\n", PINTOOL, line->list,
                file->n_missing_bytes, line->file);
    if (!line->quiet)
        printf("%s ranges=%zu bytes=%" PRIu64 " file=%s\n", what, file->pages.n,
               listed_file_bytes(file), line->file);
    return pintool_close_stdout();
}

static int lock_pages(const struct listed_file *file, struct err *err)
{
    vec_foreach(&file->pages, range) {
        size_t size = (range->end - range->start) * file->page_size;
        void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, file->fd,
                         (off_t)(range->start * file->page_size));
        if (map == MAP_FAILED)
            return err_errno(err, -errno, "%s: mmap", file->path);
        madvise(map, size, MADV_RANDOM); // no read-ahead beyond the ranges
        if (mlock2(map, size, 0) == 0)   // sanitizers disable mlock()
            continue;
        int r = -errno;
        err_errno(err, r, "%s: mlock of %zu bytes at %" PRIu64, file->path, size,
                  range->start * file->page_size);
        if (r == -ENOMEM || r == -EPERM || r == -EAGAIN)
            err_hint(err, r,
                     "RLIMIT_MEMLOCK, which does not limit root, or the free memory is too low");
        return r;
    }
    return 0;
}

static void wait_for_the_word(const struct command_line *line, const sigset_t *signals)
{
    struct timespec time = nsec_to_timespec(line->time < 0 ? 0 : line->time);
    int got;
    do
        got = line->time >= 0 ? sigtimedwait(signals, NULL, &time) : sigwaitinfo(signals, NULL);
    while (got < 0 && errno == EINTR);
}

static int lock(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_MEMLOCK, &limit);
    }
    CLEANUP(listed_file_done) struct listed_file file = {.fd = -1};
    int r = listed_file_open(line->list, line->file, &file, err);
    if (r == 0)
        r = lock_pages(&file, err);
    if (r == 0)
        r = report("locked", line, &file);
    if (r == PROGRAM_DONE)
        wait_for_the_word(line, &signals);
    return r;
}

static int read_pages(const struct listed_file *file, struct err *err)
{
    CLEANUP(freep) char *buffer = malloc(READ_BYTES);
    if (!buffer)
        return err_errno(err, -ENOMEM, "%s", file->path);
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM); // read nothing beyond the ranges
    vec_foreach(&file->pages, range) {
        uint64_t at = range->start * file->page_size, end = range->end * file->page_size;
        readahead(file->fd, (off_t)at, end - at);
        while (at < end) {
            size_t wanted = end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES;
            ssize_t n = pread(file->fd, buffer, wanted, (off_t)at);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return err_errno(err, -errno, "%s: at %" PRIu64, file->path, at);
            if (n == 0)
                break;
            at += (uint64_t)n;
        }
    }
    return 0;
}

static int preload(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    CLEANUP(listed_file_done) struct listed_file file = {.fd = -1};
    int r = listed_file_open(line->list, line->file, &file, err);
    if (r == 0)
        r = read_pages(&file, err);
    return r < 0 ? r : report("preloaded", line, &file);
}

#define USAGE(verb, what)                                                                          \
    "usage: pintool " verb " PINLIST FILE [OPTION...]\n"                                           \
    "       pintool " verb " APP.apk [OPTION...]\n"                                                \
    "\n" what "\n"                                                                                 \
    "An APK has its list inside, as assets/pinlist.meta. '-' reads the list from\n"                \
    "standard input.\n"                                                                            \
    "\n"

static const struct cli_command lock_command = {
    .program = PINTOOL,
    .verb = "lock",
    .is_mode = true,
    .usage = USAGE("lock", "Keeps the pages in memory that a pinlist names."),
    .more = "\nExample: pintool lock pinlist.meta APP.apk -t 1h\n",
    .options = lock_options,
    .operand = take_name,
    .check = check,
    .run = lock,
};

static const struct cli_command preload_command = {
    .program = PINTOOL,
    .verb = "preload",
    .is_mode = true,
    .usage = USAGE("preload", "Reads in the pages that a pinlist names."),
    .more = "\nExample: pintool preload pinlist.meta APP.apk\n",
    .options = preload_options,
    .operand = take_name,
    .check = check,
    .run = preload,
};

int pintool_lock(int argc, char **argv)
{
    return cli_command_main(&lock_command, argc, argv, &(struct command_line){.time = -1});
}

int pintool_preload(int argc, char **argv)
{
    return cli_command_main(&preload_command, argc, argv, &(struct command_line){0});
}
