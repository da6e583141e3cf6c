// SPDX-License-Identifier: Apache-2.0
//
// One profiled process as the recorder has it: its ring, and the book of what came through it. A
// Java VM's heap comes through a ring of its own and is a client of its own, beside that of the
// same process's native heaps.
// Nothing that the process does ends anything but its own profile.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/vec.h"
#include "producer/sources/heap/heap_book.h"
#include "producer/sources/heap/heap_malloc_info.h"
#include "producer/sources/heap/heap_names.h"
#include "producer/sources/heap/heap_settings.h"
#include "producer/sources/heap/heap_shares.h"
#include "producer/sources/heap/profile_writer.h"
#include "producer/sources/heap/ring_reader.h"

// A heap of the program's own (mmheap.h).
struct client_heap {
    char name[HEAP_NAME_BYTES];
    uint64_t interval_bytes; // 0: it is there and not wanted
    uint64_t n_samples;
    struct heap_book book;
};

struct heap_client {
    int32_t pid;
    int pidfd;     // owned; -1: it has ended, or the kernel has no such thing
    int socket_fd; // owned; of a VM, which sees it closed when the profile ends; or -1
    struct ring_reader ring;
    struct client_names names;
    struct client_share share;
    struct book_room room;                     // of all books here
    struct heap_book book;                     // of malloc
    struct client_heap *heaps[HEAP_HEAPS_MAX]; // owned; by number, malloc is not among them
    nsec_t start_coarse;
    uint64_t n_samples, n_failed;   // what came, and what there was no memory for
    struct malloc_info malloc_info; // the last that came
    uint64_t n_lost_frees;          // whose samples have been read
    uint64_t n_settled;             // and for which the table has been asked
    nsec_t reconcile_due;
    nsec_t smaps_due; // boot time; dumps before are without smaps
    bool is_java;
    bool from_startup;
    bool is_awaited;   // it was given its ring, and has not used it yet
    bool ended;        // nothing more comes
    bool disconnected; // it ended before the recording did
    bool rejected;     // somebody else profiles it; there is no ring
};

VEC_DEFINE(heap_client_vec, struct heap_client *);

// `ring_fd` (owned, also on failure): the memory is there already; -1: it is made, the process
// comes at its startup.
int heap_client_new(const struct ring_options *options, int32_t pid, int ring_fd,
                    struct heap_client **ret, struct err *err);
// A VM that asks over `socket_fd` (borrowed) gets its ring.
int heap_client_new_java(const struct heap_settings *settings, int32_t pid, int socket_fd,
                         struct heap_client **ret, struct err *err);
// One that is in the trace only to say that somebody else profiles it. NULL: no memory.
struct heap_client *heap_client_new_rejected(int32_t pid, bool is_java);
struct heap_client *heap_client_free(struct heap_client *client);

// Reads what has come, in `max` at most (NSEC_MAX: as long as it does), makes good for frees that
// got lost, and ends the profile with its process.
void heap_client_look(struct heap_client *client, nsec_t max);
// Reads the rest and tells the process to end. `disconnected`: it did so itself.
void heap_client_end(struct heap_client *client, bool disconnected, nsec_t max);

// A process that was given its ring has not begun with it, and perhaps will not. True once.
bool heap_client_stays_silent(struct heap_client *client, bool is_last);

bool heap_client_has_exited(const struct heap_client *client);
// Whether the process has taken its hooks out, or will do so without help.
bool heap_client_has_left(const struct heap_client *client);
// Samples that did not come through.
uint64_t heap_client_lost(const struct heap_client *client);

// What a dump says of it: up to HEAP_HEAPS_MAX heaps. Returns their number. Everything is borrowed.
size_t heap_client_describe(struct heap_client *client, const struct heap_settings *settings,
                            bool hit_guardrail, struct profile_process *ret);
