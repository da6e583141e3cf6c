// SPDX-License-Identifier: Apache-2.0
//
// Names of the functions of programs. A helper reads the files. It is asked while samples arrive,
// so that the names are ready for the dump.
#pragma once

#include <stdint.h>

#include "common/log.h"
#include "common/map.h"
#include "common/vec.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/foreign/helper.h"
#include "producer/ground/ids.h"
#include "producer/sources/heap/heap_book.h"
#include "producer/sources/heap/heap_settings.h"
#include "producer/sources/heap/names_roots.h"

#define NAMES_BYTES_EACH (UINT64_C(16) << 20) // of the symbol tables of one user's programs
#define NAMES_BYTES_ALL  (UINT64_C(64) << 20)

struct heap_client;
struct names_asked;

// The state of one client. All zero: nothing is known of its files.
struct client_names {
    uint64_t payer;
    struct foreign_ids ids;
    struct names_asked *asked; // owned by the running call; NULL: none
    uint32_t root;             // its index in the roots, plus one
    uint8_t n_holds;           // how often a helper was given the root for this client
    bool is_refused;           // the recorder may not read its files
};

struct heap_names {
    struct foreign_helper *helper; // borrowed, as all members
    const struct log *log;
    const char *proc;
    const struct heap_settings *settings;
    struct names_root_vec roots;
    struct strset texts;
    struct budget bytes;
    bool limit_told, file_told, refusal_told;
};

void heap_names_init(struct heap_names *names, struct foreign_helper *helper, const struct log *log,
                     const char *proc, const struct heap_settings *settings);
void heap_names_done(struct heap_names *names); // all zero is permitted

// Prepares a client while its process lives. The client's files are looked up in the present root
// of the process.
void heap_names_begin(struct heap_names *names, struct heap_client *client);
// Asks for the names of new frames.
void heap_names_ask(struct heap_names *names, struct heap_client *client);
// Call it before the client is freed.
void heap_names_forget(struct heap_client *client);

// Returns the name of a frame that has a mapping, or NULL if the frame has no name, or has none
// yet.
const char *heap_names_text(const struct heap_names *names, const struct book_frame *frame);
