// SPDX-License-Identifier: Apache-2.0
//
// Opens files that another user controls. These functions enter that user's file systems and may
// block for ever. Call them in a helper (helper.h) or in a process of its own, never in a
// recorder's loop. `tests/e2e/test_architecture.py` checks this.
#pragma once

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

// The requirements on a file.
struct foreign_want {
    mode_t type;         // S_IFREG, S_IFDIR ...
    uint64_t max_bytes;  // 0: any size
    const uid_t *owners; // borrowed; permitted owners; NULL: any
    size_t n_owners;
    int64_t modified_earliest; // seconds of the real-time clock; 0: any time
};

// Returns the root directory of process `pid` (O_PATH), or a negative errno, as process_file_open()
// does. The kernel has the folder already and does not ask its file system. But the close of the
// descriptor may block if it is the last reference to a mount. Therefore let a helper hold a
// reference longer.
int foreign_root(const char *proc, int32_t pid);

// Opens `path` for reading, below `root_fd`. Links and ".." in the path cannot lead out of that
// folder. Links of /proc are not followed. The file is held by O_PATH and checked before it is
// opened: devices, FIFOs and sockets are never opened. `flags` may have O_NOFOLLOW (the last name
// must not be a link), O_DIRECTORY and O_PATH. *ret_st is the stat that was checked; `ret_st` may
// be NULL. Returns the descriptor or a negative errno: -EPERM if the file does not meet `want`,
// -EFBIG if the file is too large.
//
// Without openat2 (before Linux 5.6, or if a filter refuses it), a path with links is not opened.
int foreign_open(int root_fd, const char *path, int flags, const struct foreign_want *want,
                 struct stat *ret_st);
