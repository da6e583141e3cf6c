// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as /proc/PID/maps, line by line and through the reader: both must find the same
// mappings, and paths must stay within their room.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/ground/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_mapping(const struct mapping *mapping)
{
    if (mapping->start >= mapping->end || memchr(mapping->path, '\n', mapping->path_size))
        abort();
    char path[256];
    memset(path, 'x', sizeof(path));
    for (size_t room = 1; room <= 64; room *= 4) {
        if (!mapping_get_path(mapping, path, room))
            continue;
        if (path[0] != '/' || strlen(path) >= room || strlen(path) > mapping->path_size)
            abort();
    }
    if (path[64] != 'x')
        abort();
}

static size_t parse_lines(const char *text, size_t size)
{
    size_t n = 0;
    for (const char *end = text + size; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t line = (size_t)((newline ? newline : end) - text);
        struct mapping mapping;
        if (mapping_parse(text, line, &mapping)) {
            check_mapping(&mapping);
            n += line < LINE_READER_SIZE / 2; // such lines fit the reader's buffer
        }
        text += line + (newline != NULL);
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n_lines = parse_lines((const char *)data, size), n_read = 0;
    static struct line_reader reader;
    reader.fd = memfd_create("maps", MFD_CLOEXEC);
    reader.begin = reader.end = 0;
    reader.at_end = reader.overlong = false;
    if (reader.fd < 0 || write(reader.fd, data, size) != (ssize_t)size ||
        lseek(reader.fd, 0, SEEK_SET) < 0)
        abort();
    struct mapping mapping;
    int r;
    while ((r = maps_next(&reader, &mapping)) > 0) {
        check_mapping(&mapping);
        n_read++;
    }
    line_reader_close(&reader);
    if (r < 0 || n_read < n_lines)
        abort();
    return 0;
}
