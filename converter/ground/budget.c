// SPDX-License-Identifier: Apache-2.0
//
// Used memory is the kernel's count of resident pages without a file, so every table counts. A
// check takes a microsecond, and follows each mebibyte or some thousands of packets.
//
// If no limit is given, the free room of the disk and half of the available memory are the limits,
// and the shares are larger: an estimate must not cut a database that would fit.
//
// With a given limit, the first walk may use a quarter of the memory, because the state of the rows
// follows. The making of rows may use three eighths: a full table that grows needs twice its size
// in addition, and the end of the conversion needs memory, too. Inflated data may use a quarter of
// the room in files. An index needs as much room as its collected entries, in addition to the room
// of the entries.
//
// The room that the end of a conversion needs is an estimate. If the estimate is too low and a file
// cannot grow, the conversion of the trace begins again with half of the share (budget_narrow()).
// The database thus has the start of the trace under any limit that an empty database fits into.
#include "converter/ground/budget.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"

#define STATM_BYTES 256
#define LINE_BYTES  512
#define NO_LIMIT    UINT64_MAX
#define NARROW_MAX  10
#define RESERVE_MAX ((uint64_t)1 << 20)
#define TIGHT_BYTES ((uint64_t)64 << 20) // more than the rows that wait for the writer

// -- available --

// Reads the number after `key` from a file of lines "KEY NUMBER". False: not found.
static bool file_number(const char *path, const char *key, uint64_t *ret)
{
    CLEANUP(fclosep) FILE *file = fopen(path, "re");
    char line[LINE_BYTES];
    size_t n = strlen(key);
    while (file && fgets(line, sizeof(line), file)) {
        const char *at = line + n;
        if (strncmp(line, key, n) == 0 && str_scan_u64(&at, line + strlen(line), ret))
            return true;
    }
    return false;
}

// Returns the bytes that are left in a memory cgroup. Pages of files do not count, because the
// kernel reclaims them.
static uint64_t cgroup_left(const char *folder, bool is_v2)
{
    char path[LINE_BYTES + 64];
    static const char *const reclaimable[][2] = {{"inactive_file ", "total_inactive_file "},
                                                 {"active_file ", "total_active_file "},
                                                 {"slab_reclaimable ", "total_slab_reclaimable "}};
    uint64_t limit, used, files;
    snprintf(path, sizeof(path), "%s/%s", folder, is_v2 ? "memory.max" : "memory.limit_in_bytes");
    if (!file_number(path, "", &limit))
        return NO_LIMIT;
    snprintf(path, sizeof(path), "%s/%s", folder,
             is_v2 ? "memory.current" : "memory.usage_in_bytes");
    if (!file_number(path, "", &used))
        return NO_LIMIT;
    snprintf(path, sizeof(path), "%s/memory.stat", folder);
    for (size_t i = 0; i < ELEMENTS(reclaimable); i++)
        if (file_number(path, reclaimable[i][is_v2 ? 0 : 1], &files))
            used -= used < files ? used : files;
    return limit > used ? limit - used : 0;
}

// Returns the least of the bytes left in the cgroup and in its parents. In a container, the mount
// is the container's root cgroup, and the name may not exist below the mount.
static uint64_t cgroups_left(const char *mount, const char *name, bool is_v2)
{
    char folder[LINE_BYTES];
    uint64_t least = cgroup_left(mount, is_v2);
    if (snprintf(folder, sizeof(folder), "%s%s", mount, name) >= (int)sizeof(folder))
        return least;
    while (strlen(folder) > strlen(mount)) {
        uint64_t left = cgroup_left(folder, is_v2);
        least = left < least ? left : least;
        *strrchr(folder, '/') = '\0';
    }
    return least;
}

uint64_t memory_available(void)
{
    uint64_t kb, least = NO_LIMIT;
    if (file_number("/proc/meminfo", "MemAvailable:", &kb))
        least = kb << 10;
    CLEANUP(fclosep) FILE *file = fopen("/proc/self/cgroup", "re");
    char line[LINE_BYTES];
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *name = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!name)
            continue;
        *name++ = '\0';
        uint64_t left = NO_LIMIT;
        if (!controllers[1])
            left = cgroups_left("/sys/fs/cgroup", name, true);
        else if (strstr(controllers, "memory"))
            left = cgroups_left("/sys/fs/cgroup/memory", name, false);
        least = left < least ? left : least;
    }
    return least;
}

// Returns the bytes that a limit of the process leaves after the program's `own` bytes.
static uint64_t limit_left(int resource, uint64_t own)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return NO_LIMIT;
    return limit.rlim_cur > own ? limit.rlim_cur - own : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t room_left(const char *folder)
{
    struct statvfs disk;
    if (statvfs(folder, &disk) < 0 || disk.f_blocks == 0) // some file systems report 0
        return NO_LIMIT;
    return (uint64_t)(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
}

// -- used --

void budget_open(struct budget *budget, uint64_t memory_max, uint64_t output_max,
                 const char *folder)
{
    *budget = (struct budget){.memory_max = memory_max, .output_max = output_max};
    uint64_t available = memory_max ? NO_LIMIT : memory_available();
    uint64_t room = output_max ? NO_LIMIT : room_left(folder ? folder : "/tmp");
    if (!memory_max)
        budget->memory_max = available == NO_LIMIT ? NO_LIMIT : available / 2;
    budget->memory_max = smaller(budget->memory_max, limit_left(RLIMIT_DATA, BUDGET_MEMORY_OWN));
    if (budget->memory_max < BUDGET_MEMORY_MIN)
        budget->memory_max = BUDGET_MEMORY_MIN;
    if (!output_max)
        budget->output_max = room;
    budget->is_room = !output_max;
    budget->is_default = !memory_max;
    budget->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

void budget_close(struct budget *budget)
{
    budget->statm = close_fd(budget->statm);
}

static uint64_t memory_used(const struct budget *budget)
{
    char text[STATM_BYTES];
    ssize_t n = budget->statm < 0 ? -1 : pread(budget->statm, text, sizeof(text) - 1, 0);
    uint64_t size, resident, shared;
    if (n <= 0)
        return 0;
    const char *at = text, *end = text + n;
    if (!str_scan_u64(&at, end, &size) || !str_scan_u64(&at, end, &resident) ||
        !str_scan_u64(&at, end, &shared) || resident < shared)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum budget_limit budget_check(const struct budget *budget, enum budget_stage stage)
{
    static const unsigned asked_eighths[] = {3, 2, 3}, default_eighths[] = {4, 4, 5};
    static const unsigned output_eighths[] = {2, 4, 6}, room_eighths[] = {4, 6, 7};
    const unsigned *eighths = budget && budget->is_room ? room_eighths : output_eighths;
    if (!budget)
        return BUDGET_LASTS;
    const unsigned *memory_eighths = budget->is_default ? default_eighths : asked_eighths;
    if (memory_used(budget) > budget->memory_max / 8 * memory_eighths[stage])
        return BUDGET_MEMORY;
    uint64_t max = budget->output_max, before = smaller(budget->before, max);
    uint64_t share = (max - before) / 8 * eighths[stage];
    if (stage != BUDGET_INPUT)
        share >>= budget->narrowed;
    return budget->output > before + share ? BUDGET_OUTPUT : BUDGET_LASTS;
}

void budget_begin(struct budget *budget)
{
    budget->before = budget->output;
    budget->narrowed = 0;
}

bool budget_narrow(struct budget *budget, int r)
{
    bool is_full = r == -EDQUOT || (r == -ENOSPC && budget->is_room);
    return is_full && budget->narrowed++ < NARROW_MAX;
}

unsigned budget_narrowed(const struct budget *budget)
{
    return budget ? budget->narrowed : 0;
}

bool budget_is_tight(const struct budget *budget)
{
    if (!budget || budget->is_room)
        return budget_narrowed(budget) > 0;
    return budget->output_max < TIGHT_BYTES || budget->output > budget->output_max / 2;
}

// Returns the limit without a reserve. The reserve is for data at the end of a conversion that
// budget_take() does not count: statistics, sources, verdicts.
static uint64_t file_max(const struct budget *budget)
{
    return budget->is_room ? budget->output_max
                           : budget->output_max - smaller(budget->output_max / 16, RESERVE_MAX);
}

int budget_take(struct budget *budget, uint64_t n_bytes)
{
    if (!budget)
        return 0;
    uint64_t before = atomic_fetch_add(&budget->output, n_bytes);
    if (budget->is_room || // the disk itself is the limit
        (before <= file_max(budget) && n_bytes <= file_max(budget) - before))
        return 0;
    atomic_fetch_sub(&budget->output, n_bytes);
    return -EDQUOT;
}

void budget_note(struct budget *budget, uint64_t n_bytes)
{
    if (budget)
        atomic_fetch_add(&budget->output, n_bytes);
}

bool budget_fits(const struct budget *budget, uint64_t n_bytes)
{
    uint64_t used = budget->output;
    return used <= file_max(budget) && n_bytes <= file_max(budget) - used;
}

void budget_give(struct budget *budget, uint64_t n_bytes)
{
    if (!budget)
        return;
    uint64_t now = budget->output; // SQLite may have made a file larger than counted
    while (!atomic_compare_exchange_weak(&budget->output, &now, now > n_bytes ? now - n_bytes : 0))
        ;
}

const char *budget_text(const struct budget *budget, enum budget_limit limit, char *buffer,
                        size_t size)
{
    uint64_t max = limit == BUDGET_MEMORY ? budget->memory_max : budget->output_max;
    snprintf(buffer, size, "--max-%s, %" PRIu64 " MiB%s, is reached",
             limit == BUDGET_MEMORY ? "memory" : "output", max >> 20,
             limit == BUDGET_OUTPUT && budget->is_room ? " (what is free)" : "");
    return buffer;
}
