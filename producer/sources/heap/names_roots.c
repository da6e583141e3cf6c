// SPDX-License-Identifier: Apache-2.0
//
// Most processes have the same root. A root is identified by its mount, inode and path, which the
// kernel tells without blocking.
#include "producer/sources/heap/names_roots.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "producer/ground/proc_text.h"

static uint64_t key_of_root(int fd)
{
    char path[64], link[PATH_MAX], text[512];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t n_link = readlink(path, link, sizeof(link));
    struct span info = text_file_span(text, sizeof(text), "/proc", "/self/fdinfo/%d", fd);
    const uint64_t parts[] = {span_number_of(info, "mnt_id:"), span_number_of(info, "ino:"),
                              hash_bytes(link, n_link > 0 ? (size_t)n_link : 0)};
    return hash_bytes(parts, sizeof(parts));
}

uint32_t names_root_add(struct names_root_vec *roots, int fd)
{
    uint64_t key = key_of_root(fd);
    for (uint32_t i = 0; i < roots->n; i++)
        if (roots->items[i].key == key) {
            close_fd(fd);
            return i + 1;
        }
    if (roots->n >= NAMES_ROOTS_MAX ||
        names_root_vec_push(roots, (struct names_root){.key = key, .fd = fd}) < 0) {
        close_fd(fd);
        return 0;
    }
    return (uint32_t)roots->n;
}

void names_roots_done(struct names_root_vec *roots)
{
    vec_foreach(roots, root)
        close_fd(root->fd);
    names_root_vec_done(roots);
}
