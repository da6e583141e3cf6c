// SPDX-License-Identifier: Apache-2.0
//
// `pintool lock` and `pintool preload`: apply a pinlist on any Linux. Locked pages stay as long as
// the process lives and maps them. So the process only stays alive, and says when it is ready,
// because mlock(2) reads the pages in first. Preloading only reads: the pages may be evicted the
// next moment.
//
// A file that shrinks while it is locked costs pages, not the process: nothing here touches the
// mapping.
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
#include "producer/pintool/listed_file.h"
#include "producer/pintool/pinlist_file.h"
#include "producer/pintool/pintool.h"
#include "producer/sources/residency/probe.h"

#define READ_BYTES ((size_t)256 << 10)

enum {
    OPTION_SECONDS = 1,
    OPTION_QUIET,
    OPTION_HELP,
};

static const struct cli_option lock_options[] = {
    {OPTION_SECONDS, 't', "time", "TIME",
     "let go after TIME, as in 10s or 5m; default: at SIGINT\nor SIGTERM"},
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing when all is locked"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

static const struct cli_option preload_options[] = {
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing when all is read"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

struct command_line {
    const char *list, *file;
    nsec_t time;
    bool has_time, quiet, help;
};

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct command_line *line = userdata;
    if (id == 0 && !line->list)
        line->list = value;
    else if (id == 0 && !line->file)
        line->file = value;
    else if (id == 0)
        return err_set(err, -EINVAL, "\"%s\": there is a file already", value);
    if (id == OPTION_SECONDS) {
        if (str_parse_duration(value, &line->time) < 0)
            return err_set(err, -EINVAL, "\"%s\" is not a time like 10s", value);
        line->has_time = true;
    }
    line->quiet |= id == OPTION_QUIET;
    line->help |= id == OPTION_HELP;
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

// Returns PINTOOL_DONE and sets *ret_go if the command line is valid and the work should go on.
static int parse(const char *verb, const struct cli_option *options, int argc, char **argv,
                 struct command_line *line, bool *ret_go)
{
    struct err err = {0};
    *ret_go = false;
    int r = cli_options_parse(options, argc, argv, take, line, &err);
    if (line->help) {
        printf("usage: pintool %s PINLIST FILE [OPTION...]\n"
               "       pintool %s APP.apk [OPTION...]\n"
               "\n"
               "%s\n"
               "An APK has its list inside, as assets/pinlist.meta. '-' reads the list from\n"
               "standard input.\n"
               "\n",
               verb, verb,
               str_eq(verb, "lock") ? "Keeps the pages in memory that a pinlist names."
                                    : "Reads in the pages that a pinlist names.");
        cli_options_print(options, stdout);
        return PINTOOL_DONE;
    }
    if (r == 0 && !line->list)
        r = err_set(&err, -EINVAL, "a pinlist and a file are needed, or an APK");
    if (r == 0 && !line->file)
        r = take_own_list(line, &err);
    if (r == 0 && str_eq(line->file, "-"))
        r = err_set(&err, -EINVAL,
                    "\"-\": standard input has no pages of its own: name the file; ./- is one of "
                    "this name");
    if (r < 0 && !err.hint[0])
        err_hint(&err, r, "see pintool %s --help", verb);
    if (r < 0)
        return cli_options_wrong(PINTOOL, NULL, r, &err);
    *ret_go = true;
    return PINTOOL_DONE;
}

static void warn_missing(const struct command_line *line, const struct listed_file *file)
{
    if (file->other_build.text[0])
        err_print(&file->other_build, PINTOOL);
    if (file->n_missing_bytes)
        fprintf(stderr, "%s: %s: %" PRIu64 " bytes lie behind the end of %s\n", PINTOOL, line->list,
                file->n_missing_bytes, line->file);
}

static void report(const char *what, const struct command_line *line,
                   const struct listed_file *file)
{
    if (!line->quiet)
        printf("%s ranges=%zu bytes=%" PRIu64 " file=%s\n", what, file->pages.n,
               listed_file_bytes(file), line->file);
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
            err_hint(err, r, "RLIMIT_MEMLOCK is too low, or so is memory; root has no such limit");
        return r;
    }
    return 0;
}

static void wait_for_the_word(const struct command_line *line, const sigset_t *signals)
{
    struct timespec time = nsec_to_timespec(line->time);
    int got;
    do
        got = line->has_time ? sigtimedwait(signals, NULL, &time) : sigwaitinfo(signals, NULL);
    while (got < 0 && errno == EINTR);
}

int pintool_lock(int argc, char **argv)
{
    struct command_line line = {0};
    struct err err = {0};
    bool go;
    int code = parse("lock", lock_options, argc, argv, &line, &go);
    if (!go)
        return code;
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
    if (listed_file_open(line.list, line.file, &file, &err) < 0 || lock_pages(&file, &err) < 0) {
        err_print(&err, PINTOOL);
        return PINTOOL_FAILED;
    }
    warn_missing(&line, &file);
    report("locked", &line, &file);
    code = pintool_close_stdout();
    if (code == PINTOOL_DONE)
        wait_for_the_word(&line, &signals);
    return code;
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

int pintool_preload(int argc, char **argv)
{
    struct command_line line = {0};
    struct err err = {0};
    bool go;
    int code = parse("preload", preload_options, argc, argv, &line, &go);
    if (!go)
        return code;
    CLEANUP(listed_file_done) struct listed_file file = {.fd = -1};
    if (listed_file_open(line.list, line.file, &file, &err) < 0 || read_pages(&file, &err) < 0) {
        err_print(&err, PINTOOL);
        return PINTOOL_FAILED;
    }
    warn_missing(&line, &file);
    report("preloaded", &line, &file);
    return pintool_close_stdout();
}
