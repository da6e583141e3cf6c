// SPDX-License-Identifier: Apache-2.0
//
// A process may see other files under the same paths (containers), and may be gone: its root is
// tried first, then the path as it stands. The build id is part of the key, so that a file that was
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
static void find_file(const char *proc, int32_t pid, const char *path, const char *build_id,
                      uint32_t build_id_size, struct elf_symbols *ret)
{
    char below[PATH_MAX];
    if (path[0] != '/')
        return;
    int n = snprintf(below, sizeof(below), "%s/%d/root%s", proc, pid, path);
    if (n <= 0 || (size_t)n >= sizeof(below) || !read_file(below, build_id, build_id_size, ret))
        read_file(path, build_id, build_id_size, ret);
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
