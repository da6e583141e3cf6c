// SPDX-License-Identifier: Apache-2.0
//
// One profiled process, from the recorder's view: its ring, and the books of its records. A Java
// VM's heap has a ring of its own, and is a client beside the client for the native heaps of the
// same process. A process can end only its own profile, whatever it does.
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

// One of the program's own heaps (mmheap.h).
struct client_heap {
    char name[HEAP_NAME_BYTES];
    uint64_t interval_bytes; // 0: the heap is not sampled
    uint64_t n_samples;
    struct heap_book book;
};

// Reasons why a process has no profile. HEAP_ENDED_EARLY: the process was found just before the
// recording ended.
#define HEAP_TAKEN       "it is being profiled already"
#define HEAP_ENDED_EARLY "the recording ended before its profile began (record for longer)"

struct heap_client {
    int32_t pid;
    int pidfd;               // owned; -1: the process has ended, or the kernel has no pidfds
    int socket_fd;           // owned; of a VM: closed when the profile ends; otherwise -1
    struct foreign *foreign; // borrowed; closes socket_fd; NULL: this process closes it
    struct ring_reader ring;
    struct client_names names;
    struct client_share share;
    struct book_room room;                     // of all books of this client
    struct heap_book book;                     // of malloc
    struct client_heap *heaps[HEAP_HEAPS_MAX]; // owned; by number, without malloc
    nsec_t start_coarse;
    uint64_t n_samples;             // received samples
    uint64_t n_failed;              // records lost for lack of memory
    struct malloc_info malloc_info; // the last one received
    uint64_t n_lost_frees;          // lost frees whose samples have been read
    uint64_t n_settled;             // lost frees at the last comparison with the table
    nsec_t reconcile_due;
    nsec_t smaps_due; // boot time; earlier dumps have no smaps
    bool is_java;
    bool from_startup;
    bool is_sent;      // the ring was sent to a native process, which begins its profile
    bool is_awaited;   // the ring was sent, but the process does not use it yet
    bool ended;        // no more data will come
    bool disconnected; // the profile ended before the recording
    bool rejected;     // another recorder profiles the process; there is no ring
};

VEC_DEFINE(heap_client_vec, struct heap_client *);

// Makes a client. `ring_fd` (owned, also on failure) is the memory of an attached process. -1:
// makes the memory, which the process asks for at its startup.
int heap_client_new(const struct ring_options *options, int32_t pid, int ring_fd,
                    struct heap_client **ret, struct err *err);
// Makes a client for a VM that asks over *socket_fd, and sends the VM its ring. Takes over
// *socket_fd if it succeeds.
int heap_client_new_java(const struct heap_settings *settings, int32_t pid, int *socket_fd,
                         struct heap_client **ret, struct err *err);
// Makes a client without a ring, for the note in the trace that another recorder profiles the
// process. Returns NULL if memory ran out.
struct heap_client *heap_client_new_rejected(int32_t pid, bool is_java);
struct heap_client *heap_client_free(struct heap_client *client);

// Reads new records for at most `max` (NSEC_MAX: until there are none), finds samples whose frees
// were lost, and ends the profile if the process has ended.
void heap_client_look(struct heap_client *client, nsec_t max);
// Reads the rest and tells the process to end its profile. `disconnected`: the process ended the
// profile.
void heap_client_end(struct heap_client *client, bool disconnected, nsec_t max);

// Returns the reason if a process has got its ring and probably will not begin to use the ring;
// otherwise NULL. Returns a reason only once. `is_last`: the recording ends.
const char *heap_client_silence(struct heap_client *client, bool is_last);
// Returns whether the client has a profile, perhaps one without samples.
bool heap_client_has_begun(const struct heap_client *client);

bool heap_client_has_exited(const struct heap_client *client);
// Returns whether the process has taken its hooks out, or will do so without help.
bool heap_client_has_left(const struct heap_client *client);
// Returns the number of samples that were lost.
uint64_t heap_client_lost(const struct heap_client *client);

// Describes the client for a dump: at most HEAP_HEAPS_MAX heaps. Returns their number. Everything
// is borrowed.
size_t heap_client_describe(struct heap_client *client, const struct heap_settings *settings,
                            bool hit_guardrail, struct profile_process *ret);
