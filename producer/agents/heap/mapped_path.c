// SPDX-License-Identifier: Apache-2.0
//
// A line of maps has the range, four more words, and the path, which may contain spaces.
#include "producer/agents/heap/mapped_path.h"

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#define PIECE_BYTES 1024
#define PATH_WORD   5

struct line {
    uint64_t start, end;
    int word; // the number of the present word
    bool in_end, in_space;
    size_t path_size;
};

static unsigned digit(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

static void take(struct line *line, char c, char *path, size_t room)
{
    if (line->word == PATH_WORD && !line->in_space) {
        if (line->path_size < room)
            path[line->path_size] = c;
        line->path_size++;
    } else if (c == ' ') {
        line->word += !line->in_space;
        line->in_space = true;
    } else if (line->in_space) {
        line->in_space = false;
        take(line, c, path, room);
    } else if (line->word == 0 && c == '-') {
        line->in_end = true;
    } else if (line->word == 0) {
        uint64_t *bound = line->in_end ? &line->end : &line->start;
        *bound = *bound << 4 | digit(c);
    }
}

static size_t find(int fd, uint64_t address, char *path, size_t room)
{
    char piece[PIECE_BYTES];
    struct line line = {0};
    for (ssize_t n; (n = read(fd, piece, sizeof(piece))) > 0;) {
        for (ssize_t i = 0; i < n; i++) {
            if (piece[i] != '\n') {
                take(&line, piece[i], path, room);
                continue;
            }
            if (address >= line.start && address < line.end)
                return line.path_size && line.path_size <= room && path[0] == '/' ? line.path_size
                                                                                  : 0;
            line = (struct line){0};
        }
    }
    return 0;
}

size_t mapped_path(uint64_t address, char *ret, size_t room)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t size = fd >= 0 ? find(fd, address, ret, room) : 0;
    if (fd >= 0)
        close(fd);
    return size;
}
