// SPDX-License-Identifier: Apache-2.0
//
// One sampler serves all these heaps: each allocation advances the thread toward the thread's next
// sampling point, by the size of the allocation in sampling intervals of its heap. The points form
// a Poisson process in whatever order heaps and intervals alternate, and a thread needs no state
// per heap.
//
// A heap that was unloaded with its library is forgotten, but its name is not: a heap that comes
// back, or another heap with the same name, gets the same number.
#include "producer/agents/heap/heaps.h"

#include <string.h>

#include "producer/agents/heap/api/mmheap_registry.h"
#include "producer/agents/heap/client.h"
#include "producer/agents/heap/notes.h"

struct numbered_heap {
    char name[HEAP_NAME_BYTES];
    uint64_t interval;
};

_Static_assert(MMHEAP_NAME_MAX == HEAP_NAME_BYTES, "names are as long on both sides");

static struct {
    struct ring_writer *ring;
    struct numbered_heap numbered[HEAP_HEAPS_MAX];
    size_t n;
    bool full;
} heaps;

// Reports.

// Halves `units` once for each doubling of the intervals. The result is below CLIENT_UNIT times the
// factor of the threshold.
static int64_t units_of(double units, unsigned n_doublings)
{
    if (__builtin_expect(n_doublings != 0, 0))
        units /= (double)(UINT64_C(1) << n_doublings);
    return (int64_t)units;
}

static void report_alloc(struct mmheap *heap, const void *p, size_t size)
{
    struct thread_state *thread = &client_thread;
    unsigned n_doublings = client_doublings();
    bool is_exact = size >> n_doublings >= heap->threshold;
    if (!is_exact) {
        thread->reported.left -= units_of((double)size * heap->scale, n_doublings);
        if (__builtin_expect(thread->reported.left > 0, 1))
            return;
    }
    uint64_t interval = mmheap_interval(heap);
    if (!p || !interval)
        return;
    struct client_report report = {
        .heap = (unsigned)heap->index,
        .key = (uint64_t)(uintptr_t)p ^ heap->mask,
        .size = size,
        .interval = interval << n_doublings,
        .is_exact = is_exact,
    };
    if (!client_reported(&report))
        __atomic_store_n(&heap->interval, 0, __ATOMIC_RELAXED);
}

static void report_free(struct mmheap *heap, const void *p)
{
    uint64_t key = (uint64_t)(uintptr_t)p ^ heap->mask;
    if (p && table_may_have(&client_table, (const void *)(uintptr_t)key))
        client_report_free((unsigned)heap->index, key);
}

static void report_free_range(struct mmheap *heap, const void *start, size_t size)
{
    client_report_free_range((unsigned)heap->index, (uint64_t)(uintptr_t)start, size);
}

// Switching.

static uint64_t wanted_interval(const char *name)
{
    const struct heap_header *header = heaps.ring->header;
    uint32_t n = header->n_wanted < HEAP_WANTED_MAX ? header->n_wanted : HEAP_WANTED_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (strncmp(header->wanted[i].name, name, HEAP_NAME_BYTES - 1) == 0)
            return header->wanted[i].interval_bytes;
    return header->others_interval_bytes;
}

static bool tell(size_t number, const struct numbered_heap *numbered)
{
    struct heap_named *record = ring_reserve(heaps.ring, HEAP_HEAP, sizeof(*record), 0);
    if (!record)
        return false;
    record->head.heap = (uint8_t)number;
    record->interval_bytes = numbered->interval;
    memcpy(record->name, numbered->name, sizeof(record->name));
    ring_commit(record);
    return true;
}

// Returns whether the name is reserved for a heap that is not the program's own.
static bool is_somebodys(const char *name)
{
    return strcmp(name, HEAP_MALLOC_NAME) == 0 || strcmp(name, HEAP_JAVA_NAME) == 0;
}

// Returns the number of the name. A new name gets the next number. Returns 0 if it cannot get one.
static size_t number_of(const char *name)
{
    for (size_t i = 1; i <= heaps.n; i++)
        if (strncmp(heaps.numbered[i].name, name, HEAP_NAME_BYTES - 1) == 0)
            return i;
    if (heaps.n + 1 >= HEAP_HEAPS_MAX || is_somebodys(name))
        return 0;
    size_t number = heaps.n + 1;
    struct numbered_heap *numbered = &heaps.numbered[number];
    *numbered = (struct numbered_heap){.interval = wanted_interval(name)};
    strncpy(numbered->name, name, sizeof(numbered->name) - 1);
    if (!tell(number, numbered)) {
        heaps.full = true;
        return 0;
    }
    heaps.n = number;
    return number;
}

static void call_changed(const struct mmheap *heap, uint64_t interval)
{
    if (heap->changed)
        heap->changed(heap->userdata, interval);
}

static void switch_on(struct mmheap *heap)
{
    // After a fork the heap may be on in the parent's profile, with a number that means nothing
    // here.
    if (mmheap_interval(heap) != 0 && heap->index > 0 && heap->index <= heaps.n &&
        strncmp(heaps.numbered[heap->index].name, heap->name, HEAP_NAME_BYTES - 1) == 0)
        return;
    size_t number = number_of(heap->name);
    uint64_t interval = number ? heaps.numbered[number].interval : 0;
    if (interval == 0)
        return;
    heap->index = number;
    heap->mask = HEAP_KEY(number, 0);
    heap->threshold = sampler_threshold(interval);
    heap->scale = (double)CLIENT_UNIT / (double)interval;
    heap->tell_alloc = report_alloc;
    heap->tell_free = report_free;
    heap->tell_free_range = report_free_range;
    __atomic_store_n(&heap->interval, interval, __ATOMIC_RELEASE);
    call_changed(heap, interval);
}

static void switch_off(struct mmheap *heap)
{
    if (__atomic_exchange_n(&heap->interval, 0, __ATOMIC_RELAXED) != 0)
        call_changed(heap, 0);
}

static bool is_data_of(const struct dl_phdr_info *info, uintptr_t start, size_t size)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) && start >= at &&
            size <= segment->p_memsz && start - at <= segment->p_memsz - size)
            return true;
    }
    return false;
}

static struct mmheap_registry *registry_of(const struct dl_phdr_info *info)
{
    uint32_t size;
    int64_t distance;
    const uint8_t *note = note_find(info, MMHEAP_NOTE_NAME, MMHEAP_NOTE_REGISTRY, &size);
    if (!note || size != sizeof(distance))
        return NULL;
    memcpy(&distance, note, sizeof(distance));
    uintptr_t address = (uintptr_t)note + (uintptr_t)distance;
    struct mmheap_registry *registry = (struct mmheap_registry *)address;
    return is_data_of(info, address, sizeof(*registry)) &&
                   address % _Alignof(struct mmheap_registry) == 0 &&
                   registry->version == MMHEAP_REGISTRY_VERSION &&
                   registry->heap_size == sizeof(struct mmheap)
               ? registry
               : NULL;
}

static void for_each_heap(struct mmheap_registry *registry, void (*act)(struct mmheap *))
{
    uint32_t n = __atomic_load_n(&registry->n_heaps, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && i < MMHEAP_HEAPS_MAX; i++)
        act(&registry->heaps[i]);
}

void heaps_reset(void)
{
    heaps.n = 0;
}

void heaps_begin(struct ring_writer *ring)
{
    heaps.ring = ring;
    heaps.full = false;
}

void heaps_seen(const struct dl_phdr_info *info)
{
    struct mmheap_registry *registry = registry_of(info);
    if (!registry)
        return;
    __atomic_store_n(&registry->registered, client_objects_changed, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); // as in mmheap_register()
    for_each_heap(registry, switch_on);
}

bool heaps_end(void)
{
    return !heaps.full;
}

void heaps_leave(const struct dl_phdr_info *info)
{
    struct mmheap_registry *registry = registry_of(info);
    if (!registry)
        return;
    __atomic_store_n(&registry->registered, NULL, __ATOMIC_RELAXED);
    for_each_heap(registry, switch_off);
}

uint64_t heaps_largest_interval(const struct heap_header *header)
{
    uint64_t largest = header->interval_bytes;
    for (uint32_t i = 0; i < header->n_wanted && i < HEAP_WANTED_MAX; i++)
        if (header->wanted[i].interval_bytes > largest)
            largest = header->wanted[i].interval_bytes;
    return header->others_interval_bytes > largest ? header->others_interval_bytes : largest;
}
