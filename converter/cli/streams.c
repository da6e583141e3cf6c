// SPDX-License-Identifier: Apache-2.0
//
// tee(2) copies the bytes of a pipe into another pipe without consuming them. If the writer has
// written only a part of a database's first bytes, stdin_is_database() waits for more bytes or for
// the writer's end.
#include "converter/cli/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "converter/ground/spill.h"

#define MAGIC        "SQLite format 3"
#define MAGIC_BYTES  16
#define LOOK_WAIT_MS 10

int stream_file_make(struct stream_file *stream, struct err *err)
{
    *stream = (struct stream_file){0};
    const char *folder = temporary_folder(NULL);
    if (asprintf(&stream->folder, "%s/mmsql.XXXXXX", folder) < 0) {
        stream->folder = NULL;
        return err_errno(err, -ENOMEM, "temporary file");
    }
    if (!mkdtemp(stream->folder)) {
        free(STEAL(stream->folder));
        return err_errno(err, -errno, "temporary file in %s", folder);
    }
    if (asprintf(&stream->file, "%s/database", stream->folder) < 0) {
        stream->file = NULL;
        return err_errno(err, -ENOMEM, "temporary file");
    }
    return 0;
}

void stream_file_done(struct stream_file *stream)
{
    int why = errno;
    if (stream->file)
        unlink(stream->file);
    if (stream->folder)
        rmdir(stream->folder);
    free(stream->file);
    free(stream->folder);
    *stream = (struct stream_file){0};
    errno = why;
}

// Copies the first bytes of the pipe at file descriptor 0, at most `size`.
static ssize_t pipe_peek(char *ret, size_t size)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -1;
    CLEANUP(close_fdp) int from = pair[0];
    CLEANUP(close_fdp) int to = pair[1];
    ssize_t n = tee(STDIN_FILENO, to, size, 0); // waits for the first byte, or the end
    return n > 0 ? read(from, ret, (size_t)n) : n;
}

// Returns true if the writer has closed the pipe. Otherwise waits LOOK_WAIT_MS.
static bool pipe_has_ended(void)
{
    struct pollfd pipe = {.fd = STDIN_FILENO}; // POLLHUP needs no request
    return poll(&pipe, 1, LOOK_WAIT_MS) > 0;
}

bool stdin_is_database(void)
{
    char head[MAGIC_BYTES] = {0};
    struct stat st;
    if (fstat(STDIN_FILENO, &st) < 0)
        return false;
    if (S_ISREG(st.st_mode)) {
        off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
        return pread(STDIN_FILENO, head, sizeof(head), at) == (ssize_t)sizeof(head) &&
               memcmp(head, MAGIC, sizeof(head)) == 0;
    }
    ssize_t n = S_ISFIFO(st.st_mode) ? pipe_peek(head, sizeof(head)) : -1;
    while (n > 0 && n < MAGIC_BYTES && memcmp(head, MAGIC, (size_t)n) == 0 && !pipe_has_ended())
        n = pipe_peek(head, sizeof(head));
    return n == MAGIC_BYTES && memcmp(head, MAGIC, sizeof(head)) == 0;
}

static int copy(int from, int to, const char *from_name, const char *to_name, struct err *err)
{
    bool write;
    int r = fd_copy(from, to, &write);
    return r < 0 ? err_errno(err, r, "%s", write ? to_name : from_name) : 0;
}

int stream_file_fill(const struct stream_file *stream, struct err *err)
{
    CLEANUP(close_fdp)
    int fd = open(stream->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, -errno, "%s", stream->file);
    return copy(STDIN_FILENO, fd, "standard input", stream->file, err);
}

int stream_file_pour(struct stream_file *stream, struct err *err)
{
    CLEANUP(close_fdp) int fd = open(stream->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "%s", stream->file);
    stream_file_done(stream);
    return copy(fd, STDOUT_FILENO, "temporary file", "standard output", err);
}

char *text_read(const char *path)
{
    CLEANUP(fclosep)
    FILE *file = str_eq(path, "-") ? fdopen(dup(STDIN_FILENO), "r") : fopen(path, "re");
    if (!file)
        return NULL;
    struct strbuf text = {0};
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        strbuf_add(&text, chunk, n);
    if (ferror(file)) {
        strbuf_done(&text);
        return NULL;
    }
    return strbuf_steal(&text);
}
