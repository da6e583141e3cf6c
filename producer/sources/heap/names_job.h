// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of naming functions: it opens the files that programs name, and keeps their
// symbols.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>

#include "producer/foreign/job.h"

#define NAMES_A_QUESTION 512
#define NAMES_TEXT_MAX   32768 // bytes of one name; longer ones are none
#define NAMES_NONE       UINT16_MAX

// A result: this program may not act as the process's user.
#define NAMES_REFUSED (-EOPNOTSUPP)

#define NAMES_TABLE_MAX (UINT64_C(128) << 20) // bytes of a table of a file that is not root's
#define NAMES_CACHE_MAX (UINT64_C(256) << 20) // bytes of all tables that are kept
#define NAMES_READ_MAX  (UINT64_C(1) << 30)   // bytes of tables of one user's files, in all

// Behind it: the addresses, the build id, the path.
struct names_ask {
    uint64_t root; // as the answer of names_hold_job() says
    uint64_t payer;
    uid_t uid; // of the process, as the gid
    gid_t gid;
    uint32_t n, id_size, path_size;
};

// Behind it, for each of the first `n` addresses: an uint16_t, the size of its name or NAMES_NONE,
// and the name.
struct names_answer {
    uint32_t n;
};

// Of a process's root, which is beside the request: an uint64_t, its number.
void names_hold_job(struct foreign_worker *worker, struct foreign_request *request,
                    struct foreign_answer *ret);

// Of a names_ask: a names_answer. -ESTALE: this helper has no such root. -EFBIG: the file has too
// large a table, -EDQUOT: the user's files have in all. NAMES_REFUSED. Other negative errno: no
// file, or none with symbols.
void names_find_job(struct foreign_worker *worker, struct foreign_request *request,
                    struct foreign_answer *ret);
