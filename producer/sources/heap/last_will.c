// SPDX-License-Identifier: Apache-2.0
//
// The kernel finds each futex word at the same distance from the word's entry in the list. The
// entry must not lie in the memory that the client can write. Therefore a private page lies
// directly before the shared memory, and the entry at the end of this page.
//
// The process can die between any two instructions: the order of the stores keeps the list whole.
//
// Robust mutexes of the C library use the same list. This program has no robust mutexes.
#include "producer/sources/heap/last_will.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry {
    struct robust_list link; // first: the kernel's list runs from link to link
    struct entry *before;    // NULL: the entry is the first
};

_Static_assert(HEAP_STOPPED == FUTEX_OWNER_DIED, "the kernel sets this bit");

static struct {
    struct robust_list_head head;
    pid_t thread; // whose list this is; 0: none
    unsigned n;
} wills;

static struct entry *entry_of(struct heap_header *header)
{
    return (struct entry *)header - 1;
}

static size_t private_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

// After a fork the child has no list, but still has the entries of its parent's list.
static bool list_is_there(void)
{
    pid_t self = (pid_t)syscall(SYS_gettid);
    if (self != getpid())
        return false;
    if (wills.thread == self)
        return true;
    wills.head.list.next = &wills.head.list;
    wills.head.futex_offset = (long)(sizeof(struct entry) + offsetof(struct heap_header, recorder));
    wills.head.list_op_pending = NULL;
    wills.n = 0;
    wills.thread = syscall(SYS_set_robust_list, &wills.head, sizeof(wills.head)) == 0 ? self : 0;
    return wills.thread != 0;
}

static void link_in(struct entry *entry)
{
    struct robust_list *first = wills.head.list.next;
    *entry = (struct entry){.link.next = first};
    if (first != &wills.head.list)
        ((struct entry *)first)->before = entry;
    atomic_signal_fence(memory_order_seq_cst);
    wills.head.list.next = &entry->link;
    wills.n++;
}

static void link_out(struct entry *entry)
{
    struct robust_list *next = entry->link.next;
    if (entry->before)
        entry->before->link.next = next;
    else
        wills.head.list.next = next;
    if (next != &wills.head.list)
        ((struct entry *)next)->before = entry->before;
    atomic_signal_fence(memory_order_seq_cst);
    wills.n--;
}

static struct heap_header *map_alone(int fd, uint64_t ring_bytes)
{
    return mmap(NULL, HEAP_MEMORY_BYTES(ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

struct heap_header *last_will_map(int fd, uint64_t ring_bytes, bool *ret_is_noted)
{
    size_t before = private_bytes(), bytes = HEAP_MEMORY_BYTES(ring_bytes);
    *ret_is_noted = false;
    if (!list_is_there() || wills.n == LAST_WILL_MAX)
        return map_alone(fd, ring_bytes);
    uint8_t *room = mmap(NULL, before + bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    struct heap_header *header =
        mmap(room + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (header == MAP_FAILED) {
        int saved = errno;
        munmap(room, before + bytes);
        errno = saved;
        return MAP_FAILED;
    }
    link_in(entry_of(header));
    unsigned nobody = 0;
    atomic_compare_exchange_strong(&header->recorder, &nobody, (unsigned)wills.thread);
    *ret_is_noted = true;
    return header;
}

void last_will_unmap(struct heap_header *header, uint64_t ring_bytes, bool is_noted)
{
    size_t before = is_noted ? private_bytes() : 0;
    if (is_noted && wills.thread == getpid()) // not in a child after a fork
        link_out(entry_of(header));
    munmap((uint8_t *)header - before, before + HEAP_MEMORY_BYTES(ring_bytes));
}
