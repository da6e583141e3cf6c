// SPDX-License-Identifier: Apache-2.0
//
// A pinlist may be the result of an afternoon's work, and a command that finds nothing (a cold
// cache, outdated patterns) takes a second. Therefore an empty list replaces another list only on
// demand. Any other list replaces the old list, and the difference is printed, because a list
// depends on the pages in memory at that moment.
#include "producer/pintool/list_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "producer/pintool/list_source.h"
#include "producer/pintool/pinlist_file.h"
#include "producer/pintool/pintool.h"
#include "producer/pintool/whole_file.h"

int pintool_close_stdout(void)
{
    bool failed = fflush(stdout) != 0;
    int why = errno;
    if (!failed && !ferror(stdout))
        return PROGRAM_DONE;
    fprintf(stderr, "%s: standard output: %s\n", PINTOOL,
            failed ? strerror(why) : "could not be written");
    return PROGRAM_FAILED;
}

int list_output_open(struct list_output *output, bool text, struct err *err)
{
    if (!path_is_stream(output->path) && !text)
        return 0;
    if (path_is_stream(output->path) && isatty(STDOUT_FILENO)) {
        err_set(err, -ENOTTY, "-o -: standard output is a terminal, and a pinlist is binary");
        return err_hint(err, -ENOTTY, "redirect it, or name a file");
    }
    fflush(stdout);
    output->stream_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (output->stream_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return err_errno(err, -errno, "standard output");
    return 0;
}

void list_output_done(struct list_output *output)
{
    output->stream_fd = close_fd(output->stream_fd);
}

// Refuses a mistake that would overwrite the examined file, or another app.
static int refuse_file(const char *path, const char *made_of, struct err *err)
{
    bool is_zip = false;
    if (file_is_same(path, made_of))
        err_set(err, -EEXIST, "%s: not written: pintool looks at this very file", path);
    else if (pinlist_file_is_zip(path, &is_zip) == 0 && is_zip)
        err_set(err, -EEXIST, "%s: not written: a zip is there", path);
    else
        return 0;
    return err_hint(err, -EEXIST, "name another file");
}

static int write_bytes(const struct list_output *output, const char *path,
                       const struct strbuf *bytes, struct err *err)
{
    if (!path_is_stream(path))
        return whole_file_write(path, bytes->text, bytes->size, err);
    int r = fd_write_all(output->stream_fd, bytes->text, bytes->size);
    return r < 0 ? err_errno(err, r, "standard output") : 0;
}

static bool is_same(const struct pinlist *a, const struct pinlist *b)
{
    return a->n == b->n && (!a->n || memcmp(a->items, b->items, a->n * sizeof(*a->items)) == 0);
}

static void tell_replaced(const char *path, const struct pinlist *old, const struct pinlist *list)
{
    uint64_t before = pinlist_total_bytes(old), now = pinlist_total_bytes(list);
    if (is_same(old, list))
        return;
    fflush(stdout);
    fprintf(stderr,
            "%s: %s: %zu range%s with %" PRIu64 " bytes replace%s %zu range%s with %" PRIu64
            " bytes%s\n",
            PINTOOL, path, list->n, list->n == 1 ? "" : "s", now, list->n == 1 ? "s" : "", old->n,
            old->n == 1 ? "" : "s", before, now < before / 2 ? ": less than half" : "");
}

// If the source file cannot be written, the list is still valid.
static void write_source(const char *path, const struct strbuf *bytes, const struct pinlist *list,
                         const struct list_made_of *made_of)
{
    CLEANUP(list_source_done) struct list_source source = {0};
    CLEANUP(strbuf_done) struct strbuf name = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct err err = {0};
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    strbuf_addf(&name, "%s" LIST_SOURCE_SUFFIX, path);
    int r = list_source_make(list, made_of->zip, made_of->path, made_of->size_bytes, &source);
    if (r == 0) {
        list_source_encode(&source, bytes, &text);
        r = name.failed || text.failed ? -ENOMEM : 0;
    }
    if (r < 0)
        err_errno(&err, r, "%s" LIST_SOURCE_SUFFIX, path);
    else
        r = whole_file_replace(name.text, text.text, text.size, &err);
    if (r < 0) {
        err_hint(&err, r,
                 "the list is written, but pintool cannot recognise a list of another build");
        err_print(&err, PINTOOL);
    }
}

// Refuses an empty list in the place of another file. Without another file, or with an empty one,
// nothing is lost: the empty list is only reported.
static int refuse_empty(const char *path, const struct list_made_of *made_of, struct err *err)
{
    struct stat st;
    if (path_is_stream(path) || (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size)) {
        err_set(err, -ENODATA, "%s: the list would be empty: %s; %s", path, made_of->why_empty,
                path_is_stream(path) ? "nothing is written" : "the old file stays as it was");
        return err_hint(err, -ENODATA, "--allow-empty writes it all the same");
    }
    fflush(stdout);
    fprintf(stderr, "%s: %s: the list is empty: %s\n", PINTOOL, path, made_of->why_empty);
    return 0;
}

int list_output_write(const struct list_output *output, const struct pinlist *list,
                      const struct list_made_of *made_of, struct err *err)
{
    CLEANUP(pinlist_done) struct pinlist old = {0};
    CLEANUP(strbuf_done) struct strbuf bytes = {0};
    const char *path = output->path;
    bool had_list = false;
    int r = path_is_stream(path) ? 0 : refuse_file(path, made_of->path, err);
    if (r == 0 && !pinlist_total_bytes(list) && !output->allow_empty)
        r = refuse_empty(path, made_of, err);
    if (r == 0 && !path_is_stream(path) && pinlist_file_peek(path, &old, &had_list) < 0)
        r = err_errno(err, -ENOMEM, "%s", path);
    if (r < 0)
        return r;
    pinlist_encode(list, &bytes);
    r = bytes.failed ? err_errno(err, -ENOMEM, "%s", path) : write_bytes(output, path, &bytes, err);
    if (r < 0)
        return r;
    if (had_list)
        tell_replaced(path, &old, list);
    if (made_of->zip && !path_is_stream(path))
        write_source(path, &bytes, list, made_of);
    return 0;
}

int list_output_write_text(const struct list_output *output, const char *path,
                           const struct strbuf *text, const char *made_of, struct err *err)
{
    int r = path_is_stream(path) ? 0 : refuse_file(path, made_of, err);
    return r < 0 ? r : write_bytes(output, path, text, err);
}
