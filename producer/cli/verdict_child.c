// SPDX-License-Identifier: Apache-2.0
//
// The daemon is root, and a trace contains data of other users. Therefore `mmsql verdict` gives up
// root's rights before it reads (`--confined`). The trace is the child's standard input, so that
// the child needs no right to open the file.
#include "producer/cli/verdict_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/terminal.h"
#include "producer/cli/cli.h"
#include "producer/cli/converter_child.h"

#define OUTPUT_MAX   16384 // bytes; further output of the child is dropped
#define PROMPT_WAITS (1200 * NSEC_PER_MSEC)
#define QUEUED_MAX   (10 * NSEC_PER_SEC) // on a busy machine
#define PROMPT_MAX   ((uint64_t)24 << 20)

bool verdict_is_possible(void)
{
    return converter_is_there();
}

static int size_check(const struct verdict_request *request, struct err *err)
{
    uint64_t max = request->max_bytes ? request->max_bytes : VERDICT_TRACE_MAX;
    struct stat st;
    if (fstat(request->fd, &st) < 0)
        return err_errno(err, -errno, "verdict");
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "verdict: not a regular file");
    if (st.st_size == 0)
        return err_set(err, -ENODATA, "verdict: the trace is empty");
    if ((uint64_t)st.st_size > max) {
        err_set(err, -EFBIG, "no verdict: the trace is larger than %llu MB",
                (unsigned long long)(max >> 20));
        return err_hint(err, -EFBIG, "mmsql verdict FILE");
    }
    return 0;
}

int verdict_of_fd(const struct verdict_request *request, struct strbuf *ret, struct err *err)
{
    struct strbuf out CLEANUP(strbuf_done) = {0}, errors CLEANUP(strbuf_done) = {0};
    static const char *const argv[] = {"mmsql", "verdict", "--confined", "--quiet", "-", NULL};
    const struct converter_request child = {.argv = argv,
                                            .fd = request->fd,
                                            .timeout = request->timeout,
                                            .queued_max = request->queued_max,
                                            .output_max = OUTPUT_MAX,
                                            .cancel_fd = request->cancel_fd,
                                            .stands_back = request->stands_back};
    int r = size_check(request, err);
    if (r < 0)
        return r;
    r = converter_run(&child, &out, &errors, err);
    if (r < 0 && err->text[0])
        return r;
    if (r == -ETIMEDOUT) {
        err_set(err, r, "no verdict: it took more than %.1f s", (double)request->timeout / 1e9);
        return err_hint(err, r, "mmsql verdict FILE");
    }
    if (r < 0 && r != -EIO)
        return err_errno(err, r, "verdict");
    if (r < 0) {
        char *text = errors.text ? errors.text : (char[]){""};
        text[strcspn(text, "\n")] = '\0';
        str_make_printable(text, false);
        return err_set(err, r, "no verdict: %s", *text ? text : "mmsql failed");
    }
    if (out.text) {
        str_make_printable(out.text, true);
        strbuf_add_str(ret, out.text);
    }
    return out.failed || ret->failed ? err_errno(err, -ENOMEM, "verdict") : 0;
}

void verdict_print(const char *path, int cancel_fd)
{
    struct strbuf lines CLEANUP(strbuf_done) = {0};
    struct err err = {0};
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct verdict_request request = {.fd = fd,
                                      .timeout = PROMPT_WAITS,
                                      .queued_max = QUEUED_MAX,
                                      .max_bytes = PROMPT_MAX,
                                      .cancel_fd = cancel_fd};
    int r = fd < 0 ? -errno : verdict_of_fd(&request, &lines, &err);
    char name[PATH_MAX];
    if (r == -EFBIG || r == -ETIMEDOUT)
        fprintf(stderr, "  no verdict yet: the trace takes too long to read (mmsql verdict %s)\n",
                str_printable(name, sizeof(name), path, strlen(path)));
    else if (r < 0 && r != -ENOENT && r != -ENODATA && r != -ECANCELED && err.text[0])
        err_print(&err, CLI_PROGRAM);
    for (char *line = lines.text, *end; r == 0 && line && *line; line = end + 1) {
        end = strchr(line, '\n');
        terminal_print(stderr, "  ", line, end ? (size_t)(end - line) : strlen(line));
        if (!end)
            break;
    }
}

void verdict_print_next(const char *path)
{
    char name[PATH_MAX], page[PATH_MAX];
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    size_t size =
        dot && dot != path && (!slash || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
    if (!isatty(STDERR_FILENO) || !verdict_is_possible())
        return;
    fprintf(stderr, "  next: mmsql report %s -o %s.html\n",
            str_printable(name, sizeof(name), path, strlen(path)),
            str_printable(page, sizeof(page), path, size));
}
