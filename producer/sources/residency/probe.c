// SPDX-License-Identifier: Apache-2.0
//
// The costs (measured by tests/bench/residency_probe): a cachestat(2) call takes 0.2 us, and about
// 8 ns for each entry of the page cache's tree; an entry is a folio of one to thousands of pages. A
// mincore(2) call takes about 24 ns for each page, whatever the size of the folios. An answer of
// "all" or "none" therefore saves at least two thirds of the reading, and usually nearly all. An
// answer in between is useless, and costs up to a third of the reading that follows.
//
// The walk therefore goes from left to right, in spans that are aligned to their size, and keeps a
// balance. A uniform span adds what it saved to the balance, and a mixed span subtracts what it
// cost. A question requires a positive balance. Two uniform spans in a row double the next span. A
// mixed span makes the next one four times smaller, down to a leaf of 256 pages, which mincore
// reads. If the balance is used up, the walk reads chunks without questions, until a chunk ends in
// a long uniform stretch. Questions never cost more than they have saved, except for a few pages,
// and the worst mixture costs no more than plain mincore. For the same reason nothing is counted
// beforehand.
//
// The count of a range is never used to infer the state of pages that were not asked for: pages
// come and go meanwhile, and the difference to an older count would claim something that was never
// observed.
//
// Two ways to a wrong answer must stay closed. First, for files that the caller neither owns nor
// may write, mincore calls every page resident. may_mincore() applies the kernel's own rule.
// Without permission, cachestat alone goes down to the single page; if it refuses too (EPERM, since
// 6.15), the answer is "unknown". Second, on hugetlbfs mincore reports page tables, not the cache;
// cachestat refuses (EOPNOTSUPP): again "unknown".
//
// The mapping for mincore is PROT_NONE and one window long: memory and page tables do not grow with
// the file, and mlockall(MCL_FUTURE) does not read the file in.
#include "producer/sources/residency/probe.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif

#define LEAF_PAGES   256   // a mixed span of this size is not divided further
#define SPAN_MAX     16384 // of one cachestat in a walk
#define BALANCE_MAX  (2 * SPAN_MAX)
#define COUNT_PAGES  65536 // of one cachestat for counts: 0.7 ms if folios are single pages
#define CHUNK_MIN    1024  // read at once in mixed surroundings; doubles each time
#define CHUNK_MAX    16384 // of one mincore
#define CALM_PAGES   1024  // after a uniform stretch of this length, questions are worthwhile again
#define GROW_AFTER   2     // uniform spans in a row until the span doubles
#define OVERFLOW_UID 65534 // the id of unmapped ids in a user namespace

#define WINDOW_BYTES ((uint64_t)(sizeof(void *) > 4 ? 1 << 30 : 1 << 25))

// The kernel's ABI; <linux/mman.h> has it only since 6.5.
struct cachestat_span {
    uint64_t offset, size;
};

struct cachestat_result {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

struct residency_probe {
    size_t page_size;
    bool use_cachestat, use_mincore;
    bool has_fowner;     // CAP_FOWNER is effective
    bool initial_userns; // CAP_FOWNER applies to every file
    struct residency_probe_stats stats;
    uint8_t vector[CHUNK_MAX]; // mincore's answer
};

// The state of one residency_probe_walk().
struct walk {
    struct residency_probe *probe;
    int fd;
    struct residency_walk *at;
    nsec_t deadline;
    uint8_t *window; // owned mapping, or NULL
    uint64_t window_start, window_end;
    struct page_ranges *ranges;
};

uint64_t residency_pages(int64_t size_bytes, size_t page_size)
{
    if (size_bytes <= 0)
        return 0;
    return (uint64_t)size_bytes / page_size + ((uint64_t)size_bytes % page_size != 0);
}

static bool has_capability(unsigned capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    return data[capability / 32].effective & 1u << capability % 32;
}

static bool in_initial_userns(void)
{
    CLEANUP(fclosep) FILE *map = fopen("/proc/self/uid_map", "re");
    unsigned long long inside, outside, n;
    return map && fscanf(map, "%llu %llu %llu", &inside, &outside, &n) == 3 && inside == 0 &&
           outside == 0 && n == UINT32_MAX;
}

int residency_probe_new(enum residency_method method, struct residency_probe **ret)
{
    // The call exists if it complains about the descriptor. ENOSYS, or EPERM of a seccomp filter,
    // would come first.
    bool has_cachestat = syscall(SYS_cachestat, -1, NULL, NULL, 0) < 0 && errno == EBADF;
    if (method == RESIDENCY_CACHESTAT && !has_cachestat)
        return -ENOSYS;
    struct residency_probe *probe = calloc(1, sizeof(*probe));
    if (!probe)
        return -ENOMEM;
    probe->page_size = (size_t)sysconf(_SC_PAGESIZE);
    probe->use_cachestat = has_cachestat && method != RESIDENCY_MINCORE;
    probe->use_mincore = method != RESIDENCY_CACHESTAT;
    probe->has_fowner = has_capability(CAP_FOWNER);
    probe->initial_userns = in_initial_userns();
    *ret = probe;
    return 0;
}

struct residency_probe *residency_probe_free(struct residency_probe *probe)
{
    int saved = errno;
    free(probe);
    errno = saved;
    return NULL;
}

size_t residency_page_size(const struct residency_probe *probe)
{
    return probe->page_size;
}

bool residency_has_cachestat(const struct residency_probe *probe)
{
    return probe->use_cachestat;
}

void residency_probe_get_stats(const struct residency_probe *probe,
                               struct residency_probe_stats *ret)
{
    *ret = probe->stats;
}

// Only owners may use O_NOATIME; all others open without it.
static int open_readonly(int dir_fd, const char *path)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd = openat(dir_fd, path, flags | O_NOATIME);
    if (fd < 0 && errno == EPERM)
        fd = openat(dir_fd, path, flags);
    return fd < 0 ? -errno : fd;
}

int residency_open(int dir_fd, const char *path, int *ret_fd, struct stat *ret_stat)
{
    // An O_PATH descriptor names the file without opening it, so that a file that is not regular is
    // never opened.
    CLEANUP(close_fdp) int name_fd = openat(dir_fd, path, O_PATH | O_CLOEXEC);
    if (name_fd < 0)
        return -errno;
    struct stat named, opened;
    if (fstat(name_fd, &named) < 0)
        return -errno;
    if (!S_ISREG(named.st_mode))
        return -EINVAL;
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", name_fd);
    CLEANUP(close_fdp) int fd = open_readonly(AT_FDCWD, link);
    if (fd == -ENOENT) // no /proc
        fd = open_readonly(dir_fd, path);
    if (fd < 0)
        return fd == -EAGAIN ? -EBUSY : fd;
    if (fstat(fd, &opened) < 0)
        return -errno;
    if (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino)
        return -ESTALE;
    if (ret_stat)
        *ret_stat = opened;
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int look_up(struct residency_probe *probe, int fd, uint64_t start, uint64_t end,
                   struct cachestat_result *ret)
{
    struct cachestat_span span = {.offset = start * probe->page_size,
                                  .size = (end - start) * probe->page_size};
    probe->stats.n_cachestats++;
    if (syscall(SYS_cachestat, fd, &span, ret, 0) == 0)
        return 0;
    return errno == EPERM || errno == EOPNOTSUPP ? RESIDENCY_E_UNKNOWN : -errno;
}

// Returns whether mincore() tells this caller the truth about the file: the kernel's
// can_do_mincore().
static bool may_mincore(const struct residency_probe *probe, int fd)
{
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || fs.f_type == HUGETLBFS_MAGIC)
        return false;
    if (st.st_uid == geteuid())
        return true;
    bool mapped = probe->initial_userns || (st.st_uid != OVERFLOW_UID && st.st_gid != OVERFLOW_UID);
    if (probe->has_fowner && mapped)
        return true;
    if (syscall(SYS_faccessat2, fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0)
        return true;
    if (errno != ENOSYS || getuid() != geteuid() || getgid() != getegid())
        return false;
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return access(link, W_OK) == 0;
}

static void window_close(struct walk *walk)
{
    if (walk->window)
        munmap(walk->window, (walk->window_end - walk->window_start) * walk->probe->page_size);
    walk->window = NULL;
}

static int window_open(struct walk *walk, uint64_t page)
{
    window_close(walk);
    size_t page_size = walk->probe->page_size;
    uint64_t n = WINDOW_BYTES / page_size, start = page / n * n;
    uint64_t end = walk->at->end - start < n ? walk->at->end : start + n;
    void *window = mmap(NULL, (end - start) * page_size, PROT_NONE, MAP_SHARED | MAP_NORESERVE,
                        walk->fd, (off_t)(start * page_size));
    if (window == MAP_FAILED)
        return -errno;
    walk->probe->stats.n_mmaps++;
    walk->window = window;
    walk->window_start = start;
    walk->window_end = end;
    return 0;
}

// Reads [start, end) with mincore; at most CHUNK_MAX pages.
static int read_off(struct walk *walk, uint64_t start, uint64_t end)
{
    struct residency_probe *probe = walk->probe;
    while (start < end) {
        if (!walk->window || start < walk->window_start || start >= walk->window_end) {
            int r = window_open(walk, start);
            if (r < 0)
                return r;
        }
        uint64_t n = (end < walk->window_end ? end : walk->window_end) - start;
        uint8_t *address = walk->window + (start - walk->window_start) * probe->page_size;
        probe->stats.n_mincores++;
        probe->stats.n_mincore_pages += n;
        if (mincore(address, n * probe->page_size, probe->vector) < 0)
            return -errno;
        int r = page_ranges_append_bytes(walk->ranges, start, probe->vector, n);
        if (r < 0)
            return r;
        start += n;
    }
    return 0;
}

// Returns whether mincore can be trusted and the file can be mapped.
static bool can_read_off(struct walk *walk)
{
    struct residency_walk *at = walk->at;
    if (at->mincore == RESIDENCY_MINCORE_UNASKED) {
        bool trusted = walk->probe->use_mincore && may_mincore(walk->probe, walk->fd);
        at->mincore = trusted && window_open(walk, at->next) == 0 ? RESIDENCY_MINCORE_TRUSTED
                                                                  : RESIDENCY_MINCORE_REFUSED;
    }
    return at->mincore == RESIDENCY_MINCORE_TRUSTED;
}

// All pages before `page` have been probed. Returns RESIDENCY_E_AGAIN after the deadline.
static int advance(struct walk *walk, uint64_t page)
{
    walk->at->next = page;
    if (page < walk->at->end && walk->deadline != NSEC_MAX &&
        nsec_now(CLOCK_MONOTONIC) >= walk->deadline)
        return RESIDENCY_E_AGAIN;
    return 0;
}

// Without mincore a mixed leaf is halved down to single pages.
static int halve(struct walk *walk, uint64_t start, uint64_t end)
{
    struct cachestat_result count;
    int r = look_up(walk->probe, walk->fd, start, end, &count);
    if (r || count.cached == 0)
        return r;
    if (count.cached >= end - start)
        return page_ranges_append(walk->ranges, start, end);
    uint64_t middle = start + (end - start) / 2;
    r = halve(walk, start, middle);
    return r ? r : halve(walk, middle, end);
}

// Returns the end of the span at `start` that is aligned to its size.
static uint64_t span_end(const struct walk *walk, uint64_t start, uint64_t span)
{
    uint64_t end = start / span * span + span;
    return end < walk->at->end ? end : walk->at->end;
}

// Returns the number of equal pages at the end of the just probed pages [start, end).
static uint64_t last_stretch(const struct page_ranges *ranges, uint64_t start, uint64_t end)
{
    const struct page_range *last = ranges->n ? &ranges->items[ranges->n - 1] : NULL;
    uint64_t border = !last ? start : last->end == end ? last->start : last->end;
    return end - (border > start ? border : start);
}

// Reads a chunk in mixed surroundings, without asking for its count.
static int step_chunk(struct walk *walk, uint64_t *ret_end)
{
    struct residency_walk *at = walk->at;
    at->chunk = !at->chunk ? CHUNK_MIN : at->chunk < CHUNK_MAX ? at->chunk * 2 : CHUNK_MAX;
    uint64_t end = span_end(walk, at->next, at->chunk);
    int r = read_off(walk, at->next, end);
    if (r < 0)
        return r;
    if (last_stretch(walk->ranges, at->next, end) >= CALM_PAGES) {
        at->balance = at->span = LEAF_PAGES;
        at->n_uniform = 0;
        at->chunk = 0;
    }
    *ret_end = end;
    return 0;
}

// Passes the span at walk->at->next, of which all or no pages are resident.
static int pass_uniform(struct walk *walk, uint64_t end, bool resident)
{
    struct residency_walk *at = walk->at;
    at->balance += 2 * (end - at->next);
    if (at->balance > BALANCE_MAX)
        at->balance = BALANCE_MAX;
    if (++at->n_uniform >= GROW_AFTER && at->span < SPAN_MAX) {
        at->span *= 2;
        at->n_uniform = 0;
    }
    return resident ? page_ranges_append(walk->ranges, at->next, end) : 0;
}

// Asks for the count of a span. *ret_end stays at the start if the span must be divided.
static int step_span(struct walk *walk, uint64_t *ret_end)
{
    struct residency_walk *at = walk->at;
    struct cachestat_result count;
    uint64_t start = at->next, end = span_end(walk, start, at->span);
    int r = look_up(walk->probe, walk->fd, start, end, &count);
    if (r)
        return r;
    *ret_end = end;
    if (count.cached == 0 || count.cached >= end - start)
        return pass_uniform(walk, end, count.cached);
    at->n_uniform = 0;
    at->balance -= at->balance < end - start ? at->balance : end - start;
    if (end - start <= LEAF_PAGES)
        return can_read_off(walk) ? read_off(walk, start, end) : halve(walk, start, end);
    at->span = at->span / 4 > LEAF_PAGES ? at->span / 4 : LEAF_PAGES;
    *ret_end = start;
    return 0;
}

static int walk_spans(struct walk *walk)
{
    struct residency_walk *at = walk->at;
    if (!at->span)
        at->balance = at->span = LEAF_PAGES;
    while (at->next < at->end) {
        uint64_t end;
        bool blind = at->balance < at->span && can_read_off(walk);
        int r = blind ? step_chunk(walk, &end) : step_span(walk, &end);
        if (r == 0 && end > at->next)
            r = advance(walk, end);
        if (r)
            return r;
    }
    return 0;
}

static int walk_blindly(struct walk *walk)
{
    while (walk->at->next < walk->at->end) {
        uint64_t end = span_end(walk, walk->at->next, CHUNK_MAX);
        if (!can_read_off(walk))
            return RESIDENCY_E_UNKNOWN;
        int r = read_off(walk, walk->at->next, end);
        if (r == 0)
            r = advance(walk, end);
        if (r)
            return r;
    }
    return 0;
}

int residency_probe_walk(struct residency_probe *probe, int fd, struct residency_walk *at,
                         nsec_t deadline, struct page_ranges *ranges)
{
    if (at->next >= at->end)
        return 0;
    if (at->end > (uint64_t)INT64_MAX / probe->page_size + 1)
        return -EFBIG;
    struct walk walk = {.probe = probe, .fd = fd, .at = at, .deadline = deadline, .ranges = ranges};
    int r = probe->use_cachestat ? walk_spans(&walk) : walk_blindly(&walk);
    window_close(&walk);
    return r;
}

int residency_probe_count(struct residency_probe *probe, int fd, uint64_t *next, nsec_t deadline,
                          struct residency_counts *counts)
{
    if (!probe->use_cachestat)
        return -ENOSYS;
    if (counts->pages > (uint64_t)INT64_MAX / probe->page_size + 1)
        return -EFBIG;
    while (*next < counts->pages) {
        struct cachestat_result count;
        uint64_t end = counts->pages - *next < COUNT_PAGES ? counts->pages : *next + COUNT_PAGES;
        int r = look_up(probe, fd, *next, end, &count);
        if (r)
            return r;
        counts->cached += count.cached;
        counts->dirty += count.dirty;
        counts->writeback += count.writeback;
        counts->evicted += count.evicted;
        counts->recently_evicted += count.recently_evicted;
        *next = end;
        if (end < counts->pages && deadline != NSEC_MAX && nsec_now(CLOCK_MONOTONIC) >= deadline)
            return RESIDENCY_E_AGAIN;
    }
    return 0;
}

int residency_probe_counts(struct residency_probe *probe, int fd, uint64_t pages,
                           struct residency_counts *ret)
{
    struct residency_counts counts = {.pages = pages, .has_cachestat = probe->use_cachestat};
    CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
    struct residency_walk walk = {.end = pages};
    uint64_t next = 0;
    int r = probe->use_cachestat ? residency_probe_count(probe, fd, &next, NSEC_MAX, &counts)
                                 : residency_probe_walk(probe, fd, &walk, NSEC_MAX, &ranges);
    if (r)
        return r;
    if (!probe->use_cachestat)
        counts.cached = page_ranges_count(&ranges);
    *ret = counts;
    return 0;
}

int residency_probe_verify(struct residency_probe *probe, int fd, uint64_t cached,
                           const struct page_ranges *ranges, bool *ret_same)
{
    if (!probe->use_cachestat)
        return -ENOSYS;
    bool same = page_ranges_count(ranges) == cached;
    for (size_t i = 0; same && i < ranges->n; i++) {
        const struct page_range *range = &ranges->items[i];
        struct cachestat_result count;
        int r = look_up(probe, fd, range->start, range->end, &count);
        if (r)
            return r;
        same = count.cached == range->end - range->start;
    }
    *ret_same = same;
    return 0;
}

int residency_probe_ranges(struct residency_probe *probe, int fd, struct residency_counts *ret,
                           struct page_ranges *ranges)
{
    page_ranges_clear(ranges);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    uint64_t pages = residency_pages(st.st_size, probe->page_size);
    struct residency_walk walk = {.end = pages};
    int r = residency_probe_walk(probe, fd, &walk, NSEC_MAX, ranges);
    if (r)
        return r;
    *ret = (struct residency_counts){.pages = pages, .cached = page_ranges_count(ranges)};
    return 0;
}
