// SPDX-License-Identifier: Apache-2.0
//
// The life of a profile: start (the ring is mapped, hooks are installed) -> samples -> stop (hooks
// are removed, empty memory covers the ring). The process may have any number of profiles one after
// the other.
//
// Nothing here calls the allocator that it watches. Memory is static, except the ring and the table
// of samples, which are shared with the recorder. Threads that use these two are counted
// (client_enter() and client_leave()). If no thread uses them, they are unmapped; otherwise empty
// memory takes their place, so that a late thread always finds memory. The kernel wipes the state
// and the table's filter in a child after fork, whose records would mix with the parent's. The
// child asks for a profile of its own (client_follow_parent()). A child after vfork shares memory
// and heap with its parent and counts as the parent.
//
// An allocation must not be a cancellation point: code here that may be a cancellation point runs
// with cancellation off.
#include "producer/agents/heap/client.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/page_release.h"
#include "producer/agents/heap/client_state.h"
#include "producer/agents/heap/dormant.h"
#include "producer/agents/heap/first_objects.h"
#include "producer/agents/heap/got.h"
#include "producer/agents/heap/heaps.h"
#include "producer/agents/heap/hooks.h"
#include "producer/agents/heap/objects.h"
#include "producer/agents/heap/unwind.h"
#include "producer/heap/recorder.h"

#pragma weak __libc_single_threaded // musl has none

#define JAIL_WAITS   100 // for other threads
#define JAIL_WAIT_NS 1000000

struct client client;
struct address_table client_table __attribute__((aligned(CLIENT_PAGE_MAX)));
struct client_lasting client_lasting;
__thread struct thread_state client_thread __attribute__((tls_model("initial-exec")));

static unsigned n_present(void)
{
    unsigned n = 0;
    for (int i = 0; i < CLIENT_PRESENT_SHARDS; i++)
        n += atomic_load(&client.present[i].n);
    return n;
}

// Hooks.

static void object_seen(void *userdata, const struct dl_phdr_info *info)
{
    if (userdata) {
        objects_seen(info);
        heaps_seen(info);
    } else {
        heaps_leave(info);
    }
}

static bool begin_walk(void)
{
    return !atomic_exchange_explicit(&client.walking, true, memory_order_acquire);
}

static void end_walk(void)
{
    atomic_store_explicit(&client.walking, false, memory_order_release);
}

static const void *spared[2];

static struct got_walk new_walk(bool install)
{
    return (struct got_walk){
        .hooks = hooks_table,
        .n_hooks = hooks_n,
        .install = install,
        .spared = spared,
        .n_spared = 2,
    };
}

static void walk_objects(bool install)
{
    struct got_walk walk = new_walk(install);
    walk.seen = object_seen;
    walk.userdata = install ? &client : NULL;
    got_walk_objects(&walk);
    atomic_store(&client_lasting.hooked, install);
}

static void install_hooks(void)
{
    enum objects_result result;
    int rounds = 0;
    do {
        objects_begin(&client_lasting.window.ring);
        heaps_begin(&client_lasting.window.ring);
        walk_objects(true);
        result = objects_end();
        if (result == OBJECTS_GONE)
            unwind_forget();
    } while (result == OBJECTS_GONE && ++rounds < 3);
    if (result != OBJECTS_TOLD || !heaps_end())
        atomic_store(&client.pending, 1);
}

void client_objects_changed(void)
{
    struct thread_state *thread = &client_thread;
    if (!atomic_load(&client.epoch) || !begin_walk()) {
        atomic_store(&client.pending, 1);
        return;
    }
    int saved = errno, cancel = client_cancel_off();
    thread->inside++;
    atomic_store(&client.pending, 0);
    if (client_enter(thread))
        install_hooks();
    client_leave(thread);
    thread->inside--;
    end_walk();
    client_cancel_restore(cancel);
    errno = saved;
}

void client_objects_changed_soon(void)
{
    atomic_store(&client.pending, 2);
}

bool client_objects_pending(void)
{
    return atomic_load_explicit(&client.pending, memory_order_relaxed) != 0;
}

// Start and stop.

// `n_own`: how often the caller itself is counted. Threads that enter from now on find no profile.
static void drop_ring(unsigned n_own)
{
    pages_give_back(&client_table.counts, sizeof(client_table.counts));
    window_leave(&client_lasting.window, n_present() != n_own);
}

static int find_own_code(struct dl_phdr_info *info, size_t size, void *userdata)
{
    uintptr_t here = (uintptr_t)client_start, start = UINTPTR_MAX, end = 0;
    (void)size;
    (void)userdata;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        start = at < start ? at : start;
        end = at + info->dlpi_phdr[i].p_memsz > end ? at + info->dlpi_phdr[i].p_memsz : end;
    }
    if (here < start || here >= end)
        return 0;
    unwind_prepare((const void *)start, (const void *)end);
    return 1;
}

static int prepare_hooks(void)
{
    if (client_lasting.prepared)
        return 0;
    if (!unwind_is_there())
        return -ELIBACC;
    if (madvise(&client, sizeof(client), MADV_WIPEONFORK) < 0 ||
        madvise(&client_table.counts, sizeof(client_table.counts), MADV_WIPEONFORK) < 0)
        return -errno;
    spared[0] = (const void *)(uintptr_t)client_start;
    spared[1] = unwind_code();
    hooks_resolve();
    arenas_prepare(hooks_allocator());
    client_lasting.prepared = true;
    return 0;
}

static int prepare(void)
{
    int r = prepare_hooks();
    if (r == 0 && !client_lasting.unwinder_prepared)
        dl_iterate_phdr(find_own_code, NULL);
    client_lasting.unwinder_prepared |= r == 0;
    return r;
}

void client_set_interval(uint64_t interval)
{
    atomic_store_explicit(&client.interval, interval, memory_order_relaxed);
    atomic_store_explicit(&client_lasting.window.ring.header->interval_bytes, interval,
                          memory_order_relaxed);
}

static void begin_profile(const struct heap_header *header)
{
    client_table.slots = client_lasting.window.slots;
    client_table.shift = header->table_shift;
    client.flags = header->flags;
    client.block_timeout_us = header->block_timeout_us;
    client.adaptive_free_bytes = header->adaptive_free_bytes;
    client.adaptive_interval_bytes = header->adaptive_interval_bytes;
    memcpy(client_lasting.children_ask, header->children_ask, HEAP_ADDRESS_BYTES - 1);
    atomic_store(&client.full_since_ns, 0);
    atomic_store(&client.is_silent, false);
    client.arenas.due_ns = 0;
    atomic_store(&client.n_doublings, 0);
    client.largest_interval = heaps_largest_interval(header);
    client.is_there = true;
    client.pid = getpid();
    client_set_interval(header->interval_bytes);
    objects_reset();
    heaps_reset();
    uint32_t epoch = atomic_fetch_add(&client_lasting.last_epoch, 1) + 1;
    atomic_store(&client.epoch, epoch ? epoch : 1);
    install_hooks();
    if (__libc_single_threaded)
        arenas_tell(&client.arenas, &client_lasting.window.ring,
                    false); // otherwise locks may block, and another thread will do this
}

// Runs between begin_walk() and end_walk().
static int start(int fd)
{
    struct heap_header header;
    int r = recorder_check(fd, &header);
    if (r < 0)
        return r;
    if (atomic_load(&client.epoch))
        return -EINPROGRESS;
    int cancel = client_cancel_off();
    client_thread.inside++;
    r = prepare();
    if (r == 0)
        r = window_map(&client_lasting.window, fd, header.ring_bytes, n_present() > 0);
    if (r == 0)
        begin_profile(&header);
    client_thread.inside--;
    client_cancel_restore(cancel);
    return r;
}

// A profile that is to end does not count: it ends at the next slow path.
static bool has_profile(void)
{
    struct thread_state *thread = &client_thread;
    bool has = client_enter(thread) && !heap_is_stopped(client_lasting.window.ring.header);
    client_leave(thread);
    return has;
}

int client_start(int fd)
{
    if (has_profile())
        return -EBUSY;
    client_stop(); // remains of the last profile
    if (!begin_walk())
        return -EINPROGRESS;
    int r = start(fd);
    end_walk();
    return r;
}

// Summons.

int client_prepare(void)
{
    int r = prepare_hooks();
    if (r == 0)
        first_objects_note();
    return r;
}

// The next allocation comes from one of the objects that the program began with, so hooks in these
// are enough. If another thread is changing the entries, the summons must be sent again.
bool client_summon(uint64_t summons)
{
    if (has_profile())
        return false;
    int cancel = client_cancel_off();
    atomic_store(&client_lasting.summons, summons);
    if (!atomic_load(&client.epoch) && begin_walk()) {
        struct got_walk walk = new_walk(true);
        first_objects_walk(&walk);
        atomic_store(&client_lasting.hooked, true);
        end_walk();
    }
    client_cancel_restore(cancel);
    return true;
}

// While the entries are being changed, perhaps by the handler in another thread, the summons waits
// for the next allocation. So does a summons that comes while this one is being followed.
void client_follow_summons(void)
{
    if (!begin_walk())
        return;
    int cancel = client_cancel_off();
    uint64_t summons = atomic_exchange(&client_lasting.summons, 0);
    int fd = summons ? dormant_answer(summons) : -1;
    if (summons && (fd < 0 || start(fd) < 0) && !atomic_load(&client.epoch) &&
        !atomic_load(&client_lasting.summons))
        walk_objects(false);
    if (fd >= 0)
        close(fd);
    client_cancel_restore(cancel);
    end_walk();
}

// Children after fork.

// Another thread of the parent may have been in the loader at the time of the fork. Only a child of
// a program without threads may therefore look at its objects.
//
// The name is not read from the parent's ring here: another child, which has given up its rights,
// can still write there.
static bool begin_as_child(void)
{
    if (!client_lasting.children_ask[0] || !__libc_single_threaded || !begin_walk())
        return false;
    int cancel = client_cancel_off();
    const char *name = client_lasting.children_ask;
    int socket_fd = recorder_connect(name, true);
    int fd = socket_fd >= 0 ? recorder_receive(socket_fd, recorder_wait_max(name)) : -1;
    bool begun = fd >= 0 && start(fd) == 0;
    close_fd(fd);
    close_fd(socket_fd);
    client_cancel_restore(cancel);
    end_walk();
    return begun;
}

bool client_follow_parent(void)
{
    struct heap_header *parents = client_lasting.window.ring.header;
    if (client.is_there || !client_lasting.window.memory || atomic_exchange(&client.asked, true) ||
        !atomic_load(&client_lasting.hooked) || heap_is_stopped(parents))
        return false;
    if (begin_as_child())
        return true;
    atomic_fetch_add(&parents->n_children_left, 1);
    return false;
}

void client_finish(void)
{
    client_thread.inside++;
    if (client_enter(&client_thread))
        arenas_tell(&client.arenas, &client_lasting.window.ring, true);
    client_leave(&client_thread);
    client_thread.inside--;
}

void client_answer(void)
{
    client_thread.inside++;
    if (client_enter(&client_thread) && arenas_are_asked_for(client_lasting.window.ring.header))
        arenas_tell(&client.arenas, &client_lasting.window.ring, false);
    client_leave(&client_thread);
    client_thread.inside--;
}

static void stop(unsigned n_own, unsigned gone)
{
    if (!begin_walk())
        return; // another sample will try again
    int cancel = client_cancel_off();
    if (atomic_exchange(&client.epoch, 0)) {
        client_thread.inside++;
        walk_objects(false);
        atomic_store(&client_lasting.window.ring.header->gone, gone);
        drop_ring(n_own);
        client_thread.inside--;
    }
    end_walk();
    client_cancel_restore(cancel);
}

void client_stop(void)
{
    stop(0, HEAP_GONE_STOPPED);
}

void client_stop_entered(void)
{
    stop(1, HEAP_GONE_STOPPED);
}

// Other threads may be changing the entries, or leaving the ring.
static void leave_for_jail(void)
{
    const struct timespec pause = {.tv_nsec = JAIL_WAIT_NS};
    int cancel = client_cancel_off();
    for (int i = 0; i < JAIL_WAITS && (atomic_load(&client.epoch) || n_present() > 0); i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        stop(0, HEAP_GONE_JAIL);
    }
    client_cancel_restore(cancel);
}

void client_enter_jail(void)
{
    int saved = errno;
    atomic_store(&client_lasting.summons, 0);
    if (!atomic_load(&client.epoch))
        client_rest();
    else if (client.pid == getpid()) // not after vfork, where the memory is the parent's
        leave_for_jail();
    errno = saved;
}

void client_rest(void)
{
    if (!atomic_load(&client_lasting.hooked) || atomic_exchange(&client.rested, true) ||
        !__libc_single_threaded || !begin_walk())
        return;
    int cancel = client_cancel_off();
    walk_objects(false);
    window_cover(&client_lasting.window);
    end_walk();
    client_cancel_restore(cancel);
}
