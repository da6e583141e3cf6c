// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of naming functions: opens the files of programs and keeps their symbols.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/text.h"
#include "producer/foreign/job.h"
#include "producer/heap/elf_symbols.h"

#define NAMES_A_QUESTION 512
#define NAMES_TEXT_MAX   32768 // bytes of one name; longer names are dropped
#define NAMES_NONE       UINT16_MAX

// A result: this program may not take the ids of the process's user.
#define NAMES_REFUSED (-EOPNOTSUPP)

#define NAMES_TABLE_MAX (UINT64_C(128) << 20) // bytes of one table, for files that are not root's
#define NAMES_CACHE_MAX (UINT64_C(256) << 20) // bytes of all tables that are kept
#define NAMES_READ_MAX  (UINT64_C(1) << 30)   // bytes of the tables of all files of one user

// A request. The addresses, the build id and the path follow the struct.
struct names_ask {
    uint64_t root; // from the answer of names_hold_job()
    uint64_t payer;
    uid_t uid; // of the process; gid too
    gid_t gid;
    uint32_t n, id_size, path_size;
    uint16_t are_offsets; // the addresses are offsets in the file
    uint16_t needs_id;    // a file without a build id counts as another file
};

// An answer. For each of the first `n` addresses, a uint16_t (the size of the name, or NAMES_NONE)
// and the name follow the struct.
struct names_answer {
    uint32_t n;
    struct elf_code code; // of the file
};

// The recorder's part: walks over the names of an answer, which may be malformed.
struct names_reader {
    struct names_answer answer; // all zero if the bytes are too few
    const uint8_t *next, *end;  // borrowed: the unread bytes
};
struct names_reader names_reader_over(const uint8_t *bytes, size_t size);

// Sets *ret to the name of the next address, or to no text if the address has no name. Returns
// false at the end, or if the rest is malformed.
bool names_reader_next(struct names_reader *reader, struct text *ret);

// Request: a process's root, as the descriptor. Answer: a uint64_t, the root's number.
void names_hold_job(struct foreign_worker *worker, struct foreign_request *request,
                    struct foreign_answer *ret);

// Request: a names_ask. Answer: a names_answer, or a failure: -ESTALE if this helper does not have
// the root, -EFBIG if the file's table is too large, -EDQUOT if the tables of the user's files
// together are too large, NAMES_REFUSED, or another negative errno if there is no file or it has no
// symbols.
void names_find_job(struct foreign_worker *worker, struct foreign_request *request,
                    struct foreign_answer *ret);

// Request: a names_ask without addresses. Answer: an elf_unwind, with a memfd that has the tables
// and cannot be changed any more; or a failure of names_find_job() or elf_unwind_copy().
void names_tables_job(struct foreign_worker *worker, struct foreign_request *request,
                      struct foreign_answer *ret);
