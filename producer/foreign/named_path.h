// SPDX-License-Identifier: Apache-2.0
//
// Holds the file that a name leads to. Others may own the folders on the way, and exchange them
// meanwhile. Therefore the name is looked up one component after the other:
// - Nothing is asked of a file system that a user may have mounted (mounts.h).
// - Nothing in /proc is looked up: its links (root, cwd, fd) lead into the mounts of other
//   processes, and map_files waits for locks of its process.
// - A link in a folder that everybody may write to (/tmp) is followed only if its owner is this
//   user, or the owner of the folder, as fs.protected_symlinks has it.
// - No automount is triggered, and none is waited for.
// - The number of components is limited, those of links included.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#define NAMED_PATH_ROOM      8192
#define NAMED_COMPONENTS_MAX 256
#define NAMED_COMPONENT_MAX  1023 // bytes; VFAT and NTFS have names of 255 UTF-16 units

struct foreign_mounts;

struct named_path {
    struct foreign_mounts *mounts; // borrowed
    bool no_links;                 // follow no link at all
    // Asked before each look-up in a folder, which `fd` holds (`bits` 01), and before its entries
    // are listed (05); NULL: each folder may be used.
    bool (*may_use)(void *userdata, int fd, const struct stat *st, mode_t bits);
    void *userdata;
};

// Holds the file at `path`, which counts from the working folder if it is relative. Returns a
// descriptor of its path (O_PATH), which the caller closes, and its stat; or a negative errno:
// -ENOTSUP if the path leads to, or through, files that the kernel makes (/proc, /sys); -EXDEV if
// it leads to a file system that is not trusted; -EACCES if a folder may not be entered, or a link
// not followed; -ELOOP if the path has too many components.
int named_path_hold(const struct named_path *how, const char *path, struct stat *ret_stat);

// Holds an entry of a folder: a link itself, not its target. Returns a descriptor of its path
// (O_PATH), which the caller closes, or a negative errno: -EXDEV if something is mounted there.
int named_entry_hold(const struct named_path *how, int folder, const char *name);

// Returns whether the folder may be used.
static inline bool named_path_allows(const struct named_path *how, int fd, const struct stat *st,
                                     mode_t bits)
{
    return !how->may_use || how->may_use(how->userdata, fd, st, bits);
}
