// SPDX-License-Identifier: Apache-2.0
//
// The paths of these files are public and often in /tmp. Therefore an existing file is checked
// before a byte of it is discarded: only a plain file with one name is taken over.
#include "producer/agents/jvm/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int line_file_take(const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && (!S_ISREG(st.st_mode) || st.st_nlink != 1))
        r = -EINVAL;
    if (r == 0 && ftruncate(fd, 0) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        close(fd);
    return r < 0 ? r : fd;
}

int line_file_open(struct line_file *file, const char *path)
{
    file->size = 0;
    file->n_buffer = 0;
    file->failure = 0;
    file->fd = -1;
    file->buffer = malloc(LINE_FILE_BUFFER);
    if (!file->buffer)
        return -ENOMEM;
    int fd = line_file_take(path);
    if (fd < 0) {
        free(file->buffer);
        file->buffer = NULL;
        return fd;
    }
    file->fd = fd;
    return 0;
}

bool line_file_flush(struct line_file *file)
{
    size_t done = 0;
    while (file->fd >= 0 && done < file->n_buffer) {
        ssize_t n = write(file->fd, file->buffer + done, file->n_buffer - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            file->failure = n < 0 ? -errno : -EIO;
            while (done && file->buffer[done - 1] != '\n')
                done--;
            // If the cut fails, a partial line stays, which readers skip.
            (void)!ftruncate(file->fd, file->size + (off_t)done);
            file->n_buffer = 0;
            line_file_close(file);
            return false;
        }
        done += (size_t)n;
    }
    file->size += (off_t)done;
    file->n_buffer = 0;
    return file->fd >= 0;
}

bool line_fits(const struct line_file *file, size_t size)
{
    return file->n_buffer + size + 1 <= LINE_FILE_BUFFER;
}

char *line_begin(struct line_file *file, size_t size)
{
    if (!line_fits(file, size))
        line_file_flush(file);
    return file->fd < 0 ? NULL : file->buffer + file->n_buffer;
}

void line_end(struct line_file *file, char *end)
{
    *end++ = '\n';
    file->n_buffer = (size_t)(end - file->buffer);
}

void line_file_close(struct line_file *file)
{
    if (file->fd < 0)
        return;
    if (file->n_buffer)
        line_file_flush(file);
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    free(file->buffer);
    file->buffer = NULL;
}
