// SPDX-License-Identifier: Apache-2.0
//
// Opening what somebody else has put there. These functions enter foreign file systems and may
// block for ever: they belong into a helper (helper.h) or into a process of its own, never into a
// recorder's loop. `tests/e2e/test_architecture.py` holds everybody else to that.
#pragma once

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

// What the file has to be.
struct foreign_want {
    mode_t type;               // S_IFREG, S_IFDIR ...
    uint64_t max_bytes;        // 0: any size
    const uid_t *owners;       // borrowed; whose it may be; NULL: anybody's
    size_t n_owners;           //
    int64_t modified_earliest; // in seconds of the real-time clock; 0: any time
};

// The root directory of process `pid` (O_PATH), or a negative errno. This alone does not block: the
// kernel has the folder in its hands, and does not ask its file system. But the end of the
// descriptor may, if that is the last hold on a mount: let a helper hold it longer.
int foreign_root(const char *proc, int32_t pid);

// Opens `path` below `root_fd` for reading, and does not leave that folder whatever links and ".."
// the path has; links of /proc are not followed at all. The file is held by O_PATH and judged
// before it is opened: no device, FIFO or socket is ever opened. `flags` may be O_NOFOLLOW (the
// last name is no link), O_DIRECTORY and O_PATH. *ret_st (may be NULL) is what was judged. The
// descriptor, or a negative errno; -EPERM: it is not what was wanted, -EFBIG: it is larger.
//
// Before Linux 5.6, and where a filter refuses openat2, a path with links in it is not opened.
int foreign_open(int root_fd, const char *path, int flags, const struct foreign_want *want,
                 struct stat *ret_st);
