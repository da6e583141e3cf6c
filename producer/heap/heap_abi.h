// SPDX-License-Identifier: Apache-2.0
//
// The contract between the recorder and libmmheap.so: one memfd, made and sealed by the recorder.
// The memfd holds a header page, a ring of records, and the table of live samples (sample_table.h).
// The whole process has one ring, so the order of records is the order of events. The client
// reserves a FREE before the address can be handed out again, and an ALLOC before the program has
// seen the address.
//
// The table tells which samples live, even if records were lost. An address enters the table before
// its ALLOC is complete, and leaves the table before its FREE is reserved. Therefore a sample that
// the recorder has read has been freed if it is not in the table. This holds for a process that
// stands still or has ended, too.
//
// Positions count bytes from the beginning and never wrap. A record does not cross the ring's end;
// a record of kind PAD fills the gap. The first word of a record is 0 while the record is not
// reserved, then its size, then its size with HEAP_RECORD_DONE. The recorder zeroes all bytes that
// it has read.
//
// The recorder treats everything that the client writes as untrusted input.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HEAP_ABI_MAGIC    UINT32_C(0x706d6d48)
#define HEAP_ABI_VERSION  9
#define HEAP_HEADER_BYTES 4096

#define HEAP_TABLE_BITS      22
#define HEAP_TABLE_SHIFT_MIN 4 // of addresses
#define HEAP_TABLE_SHIFT_MAX 22
#define HEAP_TABLE_BYTES     (sizeof(uint64_t) << HEAP_TABLE_BITS)
// Size of the memfd. Pages of the table exist once there are samples.
#define HEAP_MEMORY_BYTES(ring_bytes)                                                              \
    (HEAP_HEADER_BYTES + (uint64_t)(ring_bytes) + HEAP_TABLE_BYTES)

#define HEAP_LIBRARY_FILE "libmmheap.so"
#define HEAP_RING_NAME    "mmheap" // of the memfd

#define HEAP_FRAMES_MAX 256
#define HEAP_PATH_MAX   4096
#define HEAP_ID_MAX     64 // bytes of a build id

#define HEAP_HEAPS_MAX   64 // of one process; the first is malloc's
#define HEAP_NAME_BYTES  64 // including the terminator
#define HEAP_WANTED_MAX  32
#define HEAP_MALLOC_NAME "libc.malloc"

// A Java VM has a ring of its own with one heap. Its frames are method numbers.
#define HEAP_JAVA_NAME   "com.android.art"
#define HEAP_JAVA        1       // number of this heap
#define HEAP_METHOD_MAX  2048    // bytes of a method's name
#define HEAP_JAVA_SUFFIX ".java" // of the socket's name at which VMs ask

#define HEAP_BLOCK_CLIENT (1u << 0)

#define HEAP_ADDRESS_BYTES 108 // of a socket's name with its terminator, as in struct sockaddr_un

// A bit in heap_header.recorder. The recorder sets the bit when the profile ends, and the kernel
// sets the bit when the recorder dies (producer/sources/heap/last_will.h). A client sets the bit if
// it waits in vain.
#define HEAP_STOPPED UINT32_C(0x40000000)

#define HEAP_GONE_STOPPED 1 // the recorder told the client to end, or no recorder read any more
#define HEAP_GONE_JAIL    2 // the process entered a seccomp jail

#define HEAP_TIME_BUCKETS 16 // of unwinding: less than 1 us, 2 us, 4 us ...

// A preloaded program finds its recorder by the name of a socket, with `@` for an abstract name.
// The recorder sends one byte and the memfd, or hangs up if it does not want the program.
#define HEAP_SOCKET_VARIABLE "MMTRACE_HEAP_SOCKET"
// Begins the name of a socket for the programs that the recorder itself has started. The kernel
// removes the name when the recorder ends.
#define HEAP_OWN_PREFIX    "@mmtrace-heap-own-"
#define HEAP_SOCKET_FOLDER "/run/mmtrace"
#define HEAP_SOCKET_FILE   "heap.sock" // in that folder, unless the variable names another socket

// A child after fork has no profile. At its next sample the child asks for a profile at the socket
// that the header of its parent's ring named at the parent's start. A child that gets no ring
// counts itself in that header.

// A recorder wakes a preloaded program without a profile by a signal. The program has mapped an
// empty memfd whose name contains the signal number and HEAP_ABI_VERSION. The recorder sends this
// signal with a value, the summons. At its next allocation the program connects to a socket whose
// folder and name follow from the summons, and sends HEAP_SUMMONS_READY or HEAP_SUMMONS_BUSY. From
// there on everything is as at a start. A program that no longer has this mapping uses the signal
// for itself.
#define HEAP_DORMANT_NAME    "mmheap-dormant-"
#define HEAP_DORMANT_FORMAT  HEAP_DORMANT_NAME "%d-abi%d"
#define HEAP_SIGNAL_VARIABLE "MMTRACE_HEAP_SIGNAL" // in the program's environment; 0: none
#define HEAP_SIGNAL_DEFAULT  23 // SIGURG: unnoticed by programs that do not handle it
#define HEAP_SUMMONS_READY   'r'
#define HEAP_SUMMONS_BUSY    'b'        // there is a profile already
#define HEAP_SUMMONS_PREFIX  ".mmheap-" // followed by 16 digits
#define HEAP_SUMMONS_FOLDERS                                                                       \
    {                                                                                              \
        "/tmp", "/run", "/dev/shm", "/var/tmp"                                                     \
    }
#define HEAP_SUMMONS_N_FOLDERS       4
#define HEAP_SUMMONS_FOLDER(summons) ((summons) % HEAP_SUMMONS_N_FOLDERS)

struct heap_wanted {
    char name[HEAP_NAME_BYTES];
    uint64_t interval_bytes; // 0: not wanted
};

struct heap_owner {
    uint64_t pid_namespace, start_ticks;
    int32_t pid;
    uint32_t unused;
};

struct heap_header {
    // Written by the recorder before it hands over the memory.
    uint32_t magic, version;
    uint64_t ring_bytes; // a power of two, in whole pages
    uint32_t flags;
    uint32_t block_timeout_us;        // 0: no limit
    uint64_t adaptive_free_bytes;     // the interval doubles while fewer bytes are free; 0: never
    uint64_t adaptive_interval_bytes; // the interval stops doubling at this value
    uint64_t others_interval_bytes;   // of heaps without an entry in `wanted`; 0: not wanted
    uint32_t n_wanted;
    uint32_t table_shift; // addresses within 16 << table_shift bytes share a line of the table
    struct heap_wanted wanted[HEAP_WANTED_MAX]; // malloc is not listed here
    struct heap_owner owner;
    char children_ask[HEAP_ADDRESS_BYTES]; // terminated; empty: children after fork do not ask
    // Written by the recorder, at any time.
    _Alignas(64) atomic_uint recorder; // its thread; with HEAP_STOPPED the profile has to end
    atomic_uint heartbeat;             // changes each time the recorder looks at the ring
    atomic_uint ask;                   // changes when the recorder wants ARENAS
    _Atomic uint64_t read_pos;
    // Written by the client.
    _Alignas(64) _Atomic uint64_t write_pos;
    _Alignas(64) _Atomic uint64_t interval_bytes; // of malloc; 0: not sampled
    _Atomic uint32_t n_doublings;                 // of all intervals
    _Atomic uint64_t n_unwind_errors;
    _Atomic uint64_t n_lost_allocs, lost_bytes, n_lost_frees;
    _Atomic uint64_t owed_bytes; // the part of lost_bytes that later samples do not stand for yet
    _Atomic uint64_t blocked_us;
    atomic_uint hit_timeout;
    atomic_uint gone;     // the hooks are out, because of one of HEAP_GONE_*
    atomic_uint answered; // the value of `ask` when ARENAS were written, or could not be written
    _Atomic uint64_t unwind_ns;
    _Atomic uint32_t unwind_buckets[HEAP_TIME_BUCKETS];
    // Written by children after fork.
    atomic_uint n_children_left; // children that have no profile
};

_Static_assert(sizeof(struct heap_header) <= HEAP_HEADER_BYTES, "one page");

static inline bool heap_is_stopped(const struct heap_header *header)
{
    return atomic_load_explicit(&header->recorder, memory_order_relaxed) & HEAP_STOPPED;
}

static inline void heap_set_stopped(struct heap_header *header)
{
    atomic_fetch_or(&header->recorder, HEAP_STOPPED);
}

#define HEAP_RECORD_DONE  UINT32_C(0x80000000)
#define HEAP_RECORD_ALIGN 8

enum heap_record_kind {
    HEAP_PAD = 1,
    HEAP_ALLOC,
    HEAP_FREE,
    HEAP_OBJECT,  // a mapping of code was added
    HEAP_OBJECTS, // mappings may be gone; OBJECT records of the present mappings follow
    HEAP_ARENAS,  // the state of the allocator
    HEAP_HEAP,    // the number of a heap
    HEAP_METHOD,  // the number of a method
};

struct heap_record {
    _Atomic uint32_t word; // size of the whole record, and HEAP_RECORD_DONE
    uint8_t kind;
    uint8_t heap;      // ALLOC, FREE, HEAP
    uint16_t n_frames; // ALLOC
};

struct heap_alloc {
    struct heap_record head;
    uint64_t address;  // as in the table: HEAP_KEY()
    uint64_t weight;   // bytes that the sample stands for
    uint64_t frames[]; // innermost first; return addresses
};

struct heap_free {
    struct heap_record head;
    uint64_t address;
};

// The build id and the path follow the struct.
struct heap_object {
    struct heap_record head;
    uint64_t start, end;
    uint64_t file_offset; // of `start`
    uint64_t load_bias;   // address in the file's symbol table minus offset in the file
    uint32_t id_size, path_size;
};

struct heap_named {
    struct heap_record head;
    uint64_t interval_bytes; // at the beginning; 0: the heap is not sampled
    char name[HEAP_NAME_BYTES];
};

// Numbers count from 1. The name follows the struct.
struct heap_method {
    struct heap_record head;
    uint64_t number;
    uint32_t name_size, unused;
};

// The same address in several heaps has different keys. The multiples differ in bits that no
// address has.
#define HEAP_KEY(heap, address) ((uint64_t)(address) ^ (heap)*UINT64_C(0x9e3779b97f4a7c15))

// The last of HEAP_ARENAS_MAX entries is the sum of itself and all further arenas.
struct heap_arena {
    uint64_t index;
    uint64_t system_bytes, max_system_bytes; // taken from the kernel
    uint64_t free_bytes, n_free;             // without the fast chunks
    uint64_t fast_bytes, n_fast;
};

struct heap_arenas {
    struct heap_record head;
    uint32_t n_arenas, unused;
    uint64_t mapped_bytes, n_mapped; // allocations that have a mapping of their own
    struct heap_arena arenas[];
};

#define HEAP_ARENAS_MAX      64
#define HEAP_ARENAS_BYTES(n) (sizeof(struct heap_arenas) + (size_t)(n) * sizeof(struct heap_arena))
