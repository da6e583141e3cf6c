// SPDX-License-Identifier: Apache-2.0
//
// A process may see other files under the same paths (containers), and may be gone: its root is
// tried first, then the path as it stands. A file that has lost its symbols has them in a debug
// file, where that is installed. The build id is part of the key, so that a file that was
// replaced meanwhile is not taken for what it was in another process.
#include "producer/sources/heap/heap_names.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"

#define DEBUG_FOLDER "/usr/lib/debug/.build-id/"

static int open_regular(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
        return close_fd(fd);
    return fd;
}

// False: there is no such file, or it is another one by now.
static bool read_file(const char *path, const char *build_id, uint32_t build_id_size,
                      struct elf_symbols *ret)
{
    int fd CLEANUP(close_fdp) = open_regular(path);
    if (fd < 0 || elf_symbols_read(fd, ret) < 0)
        return false;
    if (build_id_size == 0 || ret->build_id_size == 0 ||
        (ret->build_id_size == build_id_size &&
         memcmp(ret->build_id, build_id, build_id_size) == 0))
        return true;
    elf_symbols_done(ret);
    return false;
}

// Where the process has it, or, if that has ended, here.
static bool find_file(const char *proc, int32_t pid, const char *path, const char *build_id,
                      uint32_t build_id_size, struct elf_symbols *ret)
{
    char below[PATH_MAX];
    if (path[0] != '/')
        return false;
    int n = snprintf(below, sizeof(below), "%s/%d/root%s", proc, pid, path);
    return (n > 0 && (size_t)n < sizeof(below) && read_file(below, build_id, build_id_size, ret)) ||
           read_file(path, build_id, build_id_size, ret);
}

// Takes the place of what the file itself has, if it has more.
static void find_debug_file(const char *proc, int32_t pid, const char *build_id,
                            uint32_t build_id_size, struct elf_symbols *symbols)
{
    char path[sizeof(DEBUG_FOLDER) + 2 * ELF_BUILD_ID_MAX + 16] = DEBUG_FOLDER;
    size_t n = strlen(path);
    if (symbols->is_whole || build_id_size < 2 || build_id_size > ELF_BUILD_ID_MAX)
        return;
    for (uint32_t i = 0; i < build_id_size; i++)
        n += (size_t)snprintf(path + n, sizeof(path) - n, i == 0 ? "%02x/" : "%02x",
                              (unsigned char)build_id[i]);
    snprintf(path + n, sizeof(path) - n, ".debug");
    struct elf_symbols found = {0};
    if (!find_file(proc, pid, path, build_id, build_id_size, &found))
        return;
    if (found.is_whole) {
        elf_symbols_done(symbols);
        *symbols = found;
    } else {
        elf_symbols_done(&found);
    }
}

const char *heap_names_find(struct heap_names *names, const char *proc, int32_t pid,
                            const char *path, const char *build_id, uint32_t build_id_size,
                            uint64_t rel_pc)
{
    struct strbuf key CLEANUP(strbuf_done) = {0};
    strbuf_add_str(&key, path);
    strbuf_add(&key, "", 1);
    strbuf_add(&key, build_id, build_id_size);
    uint32_t id = key.failed ? STRSET_NONE : strset_add(&names->keys, key.text, key.size);
    if (id == STRSET_NONE)
        return NULL;
    if (id == names->files.n) {
        struct named_file file = {0};
        find_file(proc, pid, path, build_id, build_id_size, &file.symbols);
        find_debug_file(proc, pid, build_id, build_id_size, &file.symbols);
        if (named_file_vec_push(&names->files, file) < 0) {
            elf_symbols_done(&file.symbols);
            return NULL;
        }
    }
    return id < names->files.n ? elf_symbols_find(&names->files.items[id].symbols, rel_pc) : NULL;
}

void heap_names_done(struct heap_names *names)
{
    vec_foreach(&names->files, file)
        elf_symbols_done(&file->symbols);
    named_file_vec_done(&names->files);
    strset_done(&names->keys);
}
