// SPDX-License-Identifier: Apache-2.0
//
// What the recorder and libmmheap.so say to each other: one memfd, made and sealed by the recorder,
// that holds a header page, a ring of records, and the table of live samples (sample_table.h).
// There is one ring for the whole process, so its order is the order in which things happened: a
// free is reserved before the address can be given out again, an allocation before the program has
// seen its address.
//
// The table says which samples live, whatever was lost: an address is in it before its ALLOC is
// complete, and leaves it before its FREE is reserved. So a sample that the recorder has read and
// that is not in the table has been freed, also in a process that stands still or is gone.
//
// Positions count bytes from the beginning and never wrap. A record does not cross the ring's end;
// one of kind PAD fills the gap. Its first word is 0 while nobody has reserved it, then its size,
// then the size with HEAP_RECORD_DONE. The recorder zeroes what it has read.
//
// For the recorder everything that the client writes is outside input.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define HEAP_ABI_MAGIC    UINT32_C(0x706d6d48)
#define HEAP_ABI_VERSION  7
#define HEAP_HEADER_BYTES 4096

#define HEAP_TABLE_BITS      22
#define HEAP_TABLE_SHIFT_MIN 4 // of addresses
#define HEAP_TABLE_SHIFT_MAX 22
#define HEAP_TABLE_BYTES     (sizeof(uint64_t) << HEAP_TABLE_BITS)
// Of the memfd. Pages of the table are there when samples are.
#define HEAP_MEMORY_BYTES(ring_bytes)                                                              \
    (HEAP_HEADER_BYTES + (uint64_t)(ring_bytes) + HEAP_TABLE_BYTES)

#define HEAP_LIBRARY_FILE "libmmheap.so"
#define HEAP_RING_NAME    "mmheap" // of the memfd

#define HEAP_FRAMES_MAX 256
#define HEAP_PATH_MAX   4096
#define HEAP_ID_MAX     64 // bytes of a build id

#define HEAP_HEAPS_MAX   64 // of a process; the first is malloc's
#define HEAP_NAME_BYTES  64 // with its 0
#define HEAP_WANTED_MAX  32
#define HEAP_MALLOC_NAME "libc.malloc"

// A Java VM has a ring of its own, which holds one heap; frames are numbers of methods there.
#define HEAP_JAVA_NAME   "com.android.art"
#define HEAP_JAVA        1       // its number
#define HEAP_METHOD_MAX  2048    // bytes of a method's name
#define HEAP_JAVA_SUFFIX ".java" // of the socket's name at which VMs ask

#define HEAP_BLOCK_CLIENT (1u << 0)

#define HEAP_GONE_STOPPED 1 // it was told to end, or nobody read any more
#define HEAP_GONE_JAIL    2 // the process has put itself into a seccomp jail

#define HEAP_TIME_BUCKETS 16 // of unwinding: below 1 us, 2 us, 4 us ...

// How a preloaded program finds its recorder: the name of a socket, `@` for an abstract one. The
// recorder sends one byte and the memfd, or hangs up on programs that it does not want.
#define HEAP_SOCKET_VARIABLE "MMTRACE_HEAP_SOCKET"
#define HEAP_SOCKET_FOLDER   "/run/mmtrace"
#define HEAP_SOCKET_FILE     "heap.sock" // in that folder, unless the variable says otherwise

// How a recorder wakes a preloaded program that runs without profile. Such a program has mapped an
// empty memfd whose name has the number of a signal and HEAP_ABI_VERSION, and takes that signal
// with a value: its summons. At its next allocation it connects to a socket whose folder and name
// the summons says, and sends one of these bytes; what follows is as at a start. Whoever has no
// such mapping any more has taken the signal for itself.
#define HEAP_DORMANT_NAME    "mmheap-dormant-"
#define HEAP_DORMANT_FORMAT  HEAP_DORMANT_NAME "%d-abi%d"
#define HEAP_SIGNAL_VARIABLE "MMTRACE_HEAP_SIGNAL" // in the program's environment; 0: none
#define HEAP_SIGNAL_DEFAULT  23 // SIGURG: who does not handle it does not notice it
#define HEAP_SUMMONS_READY   'r'
#define HEAP_SUMMONS_BUSY    'b'        // there is a profile already
#define HEAP_SUMMONS_PREFIX  ".mmheap-" // then 16 digits
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
    // By the recorder, before it hands over the memory.
    uint32_t magic, version;
    uint64_t ring_bytes; // a power of two, of whole pages
    uint32_t flags;
    uint32_t block_timeout_us;        // 0: no limit
    uint64_t adaptive_free_bytes;     // the interval doubles when fewer are free; 0: never
    uint64_t adaptive_interval_bytes; // and stays when it has reached this
    uint64_t others_interval_bytes;   // of heaps without an entry in `wanted`; 0: not wanted
    uint32_t n_wanted;
    uint32_t table_shift; // memory in the order of 16 << table_shift shares a line of the table
    struct heap_wanted wanted[HEAP_WANTED_MAX]; // malloc is not among them
    struct heap_owner owner;
    // By the recorder, at any time.
    _Alignas(64) atomic_uint stop;
    atomic_uint heartbeat; // changes with every look at the ring
    atomic_uint ask;       // changes when ARENAS are wanted
    _Atomic uint64_t read_pos;
    // By the client.
    _Alignas(64) _Atomic uint64_t write_pos;
    _Alignas(64) _Atomic uint64_t interval_bytes; // of malloc; 0: it is not wanted
    _Atomic uint32_t n_doublings;                 // of all intervals
    _Atomic uint64_t n_unwind_errors;
    _Atomic uint64_t n_lost_allocs, lost_bytes, n_lost_frees;
    _Atomic uint64_t owed_bytes; // of lost_bytes, what later samples do not stand for yet
    _Atomic uint64_t blocked_us;
    atomic_uint hit_timeout;
    atomic_uint gone;     // the hooks are out: one of HEAP_GONE_*
    atomic_uint answered; // `ask` as it was when ARENAS were written, or could not be
    _Atomic uint64_t unwind_ns;
    _Atomic uint32_t unwind_buckets[HEAP_TIME_BUCKETS];
};

_Static_assert(sizeof(struct heap_header) <= HEAP_HEADER_BYTES, "one page");

#define HEAP_RECORD_DONE  UINT32_C(0x80000000)
#define HEAP_RECORD_ALIGN 8

enum heap_record_kind {
    HEAP_PAD = 1,
    HEAP_ALLOC,
    HEAP_FREE,
    HEAP_OBJECT,  // a mapping of code has come
    HEAP_OBJECTS, // mappings may have gone; those that are there follow
    HEAP_ARENAS,  // what the allocator holds
    HEAP_HEAP,    // a heap has got its number
    HEAP_METHOD,  // a method has got its number
};

struct heap_record {
    _Atomic uint32_t word; // size of the whole record, HEAP_RECORD_DONE
    uint8_t kind;
    uint8_t heap;      // ALLOC, FREE, HEAP
    uint16_t n_frames; // ALLOC
};

struct heap_alloc {
    struct heap_record head;
    uint64_t address;  // as in the table: HEAP_KEY()
    uint64_t weight;   // bytes that the sample stands for
    uint64_t frames[]; // innermost first, as they will be returned to
};

struct heap_free {
    struct heap_record head;
    uint64_t address;
};

// Behind it come the build id and the path.
struct heap_object {
    struct heap_record head;
    uint64_t start, end;
    uint64_t file_offset; // of `start`
    uint64_t load_bias;   // addresses in the file's symbol table minus offsets in the file
    uint32_t id_size, path_size;
};

struct heap_named {
    struct heap_record head;
    uint64_t interval_bytes; // at the beginning; 0: it is there and not wanted
    char name[HEAP_NAME_BYTES];
};

// Numbers count from 1. Behind it comes the name.
struct heap_method {
    struct heap_record head;
    uint64_t number;
    uint32_t name_size, unused;
};

// What is at one address in several heaps has different keys. The multiples differ in bits that no
// address has.
#define HEAP_KEY(heap, address) ((uint64_t)(address) ^ (heap)*UINT64_C(0x9e3779b97f4a7c15))

// The last of HEAP_ARENAS_MAX is the sum of those behind it, too.
struct heap_arena {
    uint64_t index;
    uint64_t system_bytes, max_system_bytes; // taken from the kernel
    uint64_t free_bytes, n_free;             // without those of `fast`
    uint64_t fast_bytes, n_fast;
};

struct heap_arenas {
    struct heap_record head;
    uint32_t n_arenas, unused;
    uint64_t mapped_bytes, n_mapped; // allocations with mappings of their own
    struct heap_arena arenas[];
};

#define HEAP_ARENAS_MAX      64
#define HEAP_ARENAS_BYTES(n) (sizeof(struct heap_arenas) + (size_t)(n) * sizeof(struct heap_arena))
