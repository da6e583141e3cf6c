// SPDX-License-Identifier: Apache-2.0
//
// Names of the functions of programs. A helper reads the files; it is asked while samples come, so
// that the names are there when a dump wants them.
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

#define NAMES_BYTES_EACH (UINT64_C(16) << 20) // of the programs of one user
#define NAMES_BYTES_ALL  (UINT64_C(64) << 20)

struct heap_client;
struct names_asked;

// Of one client. All zero: nothing is known of its files.
struct client_names {
    uint64_t payer;
    struct foreign_ids ids;
    struct names_asked *asked; // owned by the call that is under way; NULL: there is none
    uint32_t root;             // its place in the roots, and one
    uint8_t n_holds;           // how often a helper was given the root for it
    bool is_refused;           // the recorder may not read its files
};

// A root of one process or many.
struct names_root {
    uint64_t key;
    int fd;          // owned
    uint64_t number; // that the helper knows it by; 0: none, as far as is known
};
VEC_DEFINE(names_root_vec, struct names_root);

#define NAMES_ROOTS_MAX 256

struct heap_names {
    struct foreign_helper *helper; // borrowed, as all of these
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
void heap_names_done(struct heap_names *names); // fit for all zero

// At the client's beginning, while its process lives: its files are looked up in the root that it
// has now.
void heap_names_begin(struct heap_names *names, struct heap_client *client);
// Asks for the names of frames that are new.
void heap_names_ask(struct heap_names *names, struct heap_client *client);
// Before the client is freed.
void heap_names_forget(struct heap_client *client);

// The function of a frame that has a mapping; NULL: it has no name, or none yet.
const char *heap_names_text(const struct heap_names *names, const struct book_frame *frame);
