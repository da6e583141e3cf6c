// SPDX-License-Identifier: Apache-2.0
//
// Programs name their loader, and loaders are named after their C library. The file is untrusted
// input: all sizes are bounded.
#include "producer/heap/heap_program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"

#define SEGMENTS_MAX 1024

// Returns false if there is no loader. *ret is empty if its name cannot be read.
static bool read_loader(int fd, const Elf64_Ehdr *header, char ret[PATH_MAX])
{
    ret[0] = 0;
    for (uint16_t i = 0; i < header->e_phnum && i < SEGMENTS_MAX; i++) {
        Elf64_Phdr segment;
        if (pread(fd, &segment, sizeof(segment), (off_t)(header->e_phoff + i * sizeof(segment))) !=
            (ssize_t)sizeof(segment))
            return true;
        if (segment.p_type != PT_INTERP)
            continue;
        size_t size = segment.p_filesz < PATH_MAX - 1 ? segment.p_filesz : PATH_MAX - 1;
        ssize_t n = pread(fd, ret, size, (off_t)segment.p_offset);
        ret[n > 0 ? n : 0] = 0;
        return true;
    }
    return false;
}

const char *heap_program_obstacle(int fd)
{
    Elf64_Ehdr header;
    char loader[PATH_MAX];
    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
        return "it is a program of 32 bits";
    if (!read_loader(fd, &header, loader))
        return "it is a static program: no library can be brought into it";
    const char *slash = strrchr(loader, '/'), *name = slash ? slash + 1 : loader;
    if (str_starts_with(name, "ld-musl"))
        return "its C library is musl: only programs with glibc can be profiled";
    if (*name && !str_starts_with(name, "ld-linux"))
        return "its C library is not glibc";
    return NULL;
}

static int open_command(const char *command)
{
    const char *folders = getenv("PATH");
    if (strchr(command, '/'))
        return open(command, O_RDONLY | O_CLOEXEC);
    while (folders && *folders) {
        char path[PATH_MAX];
        size_t size = strcspn(folders, ":");
        int n = snprintf(path, sizeof(path), "%.*s/%s", (int)size, folders, command);
        if (n > 0 && (size_t)n < sizeof(path) && access(path, X_OK) == 0)
            return open(path, O_RDONLY | O_CLOEXEC);
        folders += size + (folders[size] == ':');
    }
    return -1;
}

const char *heap_command_obstacle(const char *command)
{
    int fd CLEANUP(close_fdp) = open_command(command);
    return fd < 0 ? NULL : heap_program_obstacle(fd);
}
