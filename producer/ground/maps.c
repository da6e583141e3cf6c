// SPDX-License-Identifier: Apache-2.0
//
// A maps line is `START-END PERMS OFFSET MAJOR:MINOR INODE   PATH`. The path is the rest of the
// line, with blanks; only newlines are escaped, as \012. The kernel does not escape backslashes. A
// name with the four characters \012 is therefore read as a name with a newline, and cannot be
// opened.
#include "producer/ground/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"

static bool scan_char(const char **cursor, const char *end, char c)
{
    if (*cursor >= end || **cursor != c)
        return false;
    (*cursor)++;
    return true;
}

bool mapping_parse(const char *line, size_t size, struct mapping *ret)
{
    const char *p = line, *end = line + size;
    struct mapping mapping;
    uint64_t major, minor;
    if (!str_scan_hex(&p, end, &mapping.start) || !scan_char(&p, end, '-') ||
        !str_scan_hex(&p, end, &mapping.end) || !scan_char(&p, end, ' ') || end - p < 5)
        return false;
    memcpy(mapping.permissions, p, 4);
    mapping.permissions[4] = 0;
    p += 4;
    if (!scan_char(&p, end, ' ') || !str_scan_hex(&p, end, &mapping.offset) ||
        !scan_char(&p, end, ' ') || !str_scan_hex(&p, end, &major) || !scan_char(&p, end, ':') ||
        !str_scan_hex(&p, end, &minor) || !scan_char(&p, end, ' ') ||
        !str_scan_u64(&p, end, &mapping.inode))
        return false;
    if (major > UINT32_MAX || minor > UINT32_MAX || mapping.start >= mapping.end)
        return false;
    mapping.major = (uint32_t)major;
    mapping.minor = (uint32_t)minor;
    while (p < end && *p == ' ')
        p++;
    mapping.path = p;
    mapping.path_size = (size_t)(end - p);
    *ret = mapping;
    return true;
}

bool mapping_get_path(const struct mapping *mapping, char *text, size_t room)
{
    if (!mapping->path_size || mapping->path[0] != '/')
        return false;
    size_t n = 0;
    for (size_t i = 0; i < mapping->path_size; n++) {
        if (n + 1 >= room || !mapping->path[i])
            return false;
        bool newline = text_starts_with((struct text){mapping->path + i, mapping->path_size - i},
                                        TEXT("\\012"));
        text[n] = newline ? '\n' : mapping->path[i];
        i += newline ? 4 : 1;
    }
    text[n] = 0;
    return true;
}

int maps_open(struct line_reader *reader, const char *proc, int32_t pid)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/%d/maps", proc, pid);
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    line_reader_over(reader, open(path, O_RDONLY | O_CLOEXEC));
    return reader->fd < 0 ? -errno : 0;
}

int maps_next(struct line_reader *reader, struct mapping *ret)
{
    struct span line;
    int r;
    do
        r = line_reader_next(reader, &line);
    while (r > 0 && !mapping_parse(line.pos, span_size(line), ret));
    return r;
}

// Finds the mapping of this program that begins at the address.
static int find_own(uint64_t start, dev_t *ret_device, uint64_t *ret_inode)
{
    int r;
    struct mapping mapping;
    struct line_reader reader;
    line_reader_over(&reader, open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    if (reader.fd < 0)
        return -errno;
    do
        r = maps_next(&reader, &mapping);
    while (r > 0 && mapping.start != start);
    line_reader_close(&reader);
    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    *ret_device = makedev(mapping.major, mapping.minor);
    *ret_inode = mapping.inode;
    return 0;
}

int maps_identify(int fd, dev_t *ret_device, uint64_t *ret_inode)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    int r = find_own((uint64_t)(uintptr_t)page, ret_device, ret_inode);
    munmap(page, size);
    return r;
}
