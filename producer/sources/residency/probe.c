// SPDX-License-Identifier: Apache-2.0
//
// cachestat(2) walks the page cache's tree in the kernel and costs a few nanoseconds per entry, an
// entry being a folio of up to thousands of pages; mincore(2) looks every single page up. So the
// file is cut into cells of 16 cells each, down to 256 pages, aligned to their size: a cell that is
// empty or full is done with one cachestat, only a mixed one is opened. In a mixed leaf the count
// tells how many pages are odd ones out: a few are cornered by halving with cachestat, many are
// cheaper to read off with one mincore. What a parent's count implies about its last child is never
// inferred: pages come and go meanwhile, and a count that is derived from an older one would claim
// what nobody saw.
//
// Two ways to a wrong answer must stay closed. For files that the caller neither owns nor may
// write, mincore calls every page resident: may_mincore() applies the kernel's own rule, and
// without permission cachestat alone goes down to the single page, or, where it refuses too (EPERM,
// since 6.15), the answer is "unknown". And on hugetlbfs mincore tells about page tables, not about
// the cache; cachestat refuses (EOPNOTSUPP): unknown again.
//
// The mapping that mincore needs is PROT_NONE and one window long, so memory and page tables do not
// grow with the file, and mlockall(MCL_FUTURE) does not read the file in.
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

// Measured with tests/bench/residency_probe: see there before changing one.
#define LEAF_PAGES   256   // mixed cells of this size are not cut into 16 any more
#define FAN_OUT      16    // cells in a cell
#define CHUNK_PAGES  16384 // of one mincore where nothing narrows the range down
#define OVERFLOW_UID 65534 // what ids without a mapping look like in a user namespace

// One cachestat against one page of mincore, as a ratio.
#define CACHESTAT_IN_MINCORE_PAGES 6

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
    bool initial_userns; // and means every file
    struct residency_probe_stats stats;
    uint8_t vector[CHUNK_PAGES]; // mincore's answer
};

enum trust { TRUST_UNASKED, TRUST_YES, TRUST_NO };

// One residency_probe_walk().
struct walk {
    struct residency_probe *probe;
    int fd;
    uint64_t next, end; // pages
    nsec_t deadline;
    enum trust mincore;
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
    // The call exists if it complains about the descriptor; ENOSYS or a seccomp filter's EPERM
    // come first.
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

// O_NOATIME is for owners; everybody else opens without it.
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
    // An O_PATH descriptor names the file without opening it, so that what is no regular file is
    // never opened at all.
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
        return fd;
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

// Whether mincore() tells this caller the truth about the file: the kernel's can_do_mincore().
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
    uint64_t end = walk->end - start < n ? walk->end : start + n;
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

// Reads [start, end) off with mincore; at most CHUNK_PAGES.
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
        for (uint64_t i = 0; i < n;) {
            uint64_t from = i;
            bool resident = probe->vector[i] & 1;
            while (i < n && (probe->vector[i] & 1) == resident)
                i++;
            int r = resident ? page_ranges_append(walk->ranges, start + from, start + i) : 0;
            if (r < 0)
                return r;
        }
        start += n;
    }
    return 0;
}

// mincore if it can be trusted and the file can be mapped; *ret_done says whether it was used.
static int try_read_off(struct walk *walk, uint64_t start, uint64_t end, bool *ret_done)
{
    *ret_done = false;
    if (walk->mincore == TRUST_UNASKED) {
        bool trusted = walk->probe->use_mincore && may_mincore(walk->probe, walk->fd);
        walk->mincore = trusted && window_open(walk, start) == 0 ? TRUST_YES : TRUST_NO;
    }
    if (walk->mincore == TRUST_NO)
        return 0;
    *ret_done = true;
    return read_off(walk, start, end);
}

// Everything before `page` has been looked at.
static int advance(struct walk *walk, uint64_t page)
{
    walk->next = page;
    if (page < walk->end && walk->deadline != NSEC_MAX &&
        nsec_now(CLOCK_MONOTONIC) >= walk->deadline)
        return RESIDENCY_E_AGAIN;
    return 0;
}

// The size of the cells that a mixed range of `n` pages is cut into.
static uint64_t cell_pages(uint64_t n)
{
    if (n <= LEAF_PAGES)
        return UINT64_C(1) << (63 - __builtin_clzll(n - 1)); // halves, roughly
    uint64_t cell = LEAF_PAGES;
    while (n > cell * FAN_OUT)
        cell *= FAN_OUT;
    return cell;
}

// Whether halving finds the `n_odd` pages of a leaf sooner than reading all `n` off.
static bool halving_is_cheaper(uint64_t n, uint64_t n_odd)
{
    uint64_t levels = 1;
    while (n_odd << levels < n)
        levels++;
    return n_odd * 2 * levels * CACHESTAT_IN_MINCORE_PAGES < n;
}

// Depth is bounded: 16 times fewer pages a level down to a leaf, then halves.
static int walk_cell(struct walk *walk, uint64_t start, uint64_t end)
{
    struct cachestat_result count;
    int r = look_up(walk->probe, walk->fd, start, end, &count);
    if (r)
        return r;
    uint64_t n = end - start;
    if (count.cached == 0)
        return advance(walk, end);
    if (count.cached >= n) {
        r = page_ranges_append(walk->ranges, start, end);
        return r < 0 ? r : advance(walk, end);
    }
    uint64_t n_odd = count.cached < n - count.cached ? count.cached : n - count.cached;
    if (n <= LEAF_PAGES && !halving_is_cheaper(n, n_odd)) {
        bool done;
        r = try_read_off(walk, start, end, &done);
        if (r < 0)
            return r;
        if (done)
            return advance(walk, end);
    }
    uint64_t cell = cell_pages(n);
    while (start < end) {
        uint64_t cell_end = start / cell * cell + cell;
        if (cell_end > end)
            cell_end = end;
        r = walk_cell(walk, start, cell_end);
        if (r)
            return r;
        start = cell_end;
    }
    return 0;
}

static int walk_chunks(struct walk *walk)
{
    while (walk->next < walk->end) {
        uint64_t end = walk->next / CHUNK_PAGES * CHUNK_PAGES + CHUNK_PAGES;
        if (end > walk->end)
            end = walk->end;
        bool done;
        int r = try_read_off(walk, walk->next, end, &done);
        if (r < 0)
            return r;
        if (!done)
            return RESIDENCY_E_UNKNOWN;
        r = advance(walk, end);
        if (r)
            return r;
    }
    return 0;
}

int residency_probe_walk(struct residency_probe *probe, int fd, uint64_t *next, uint64_t end,
                         nsec_t deadline, struct page_ranges *ranges)
{
    if (*next >= end)
        return 0;
    if (end > (uint64_t)INT64_MAX / probe->page_size + 1)
        return -EFBIG;
    struct walk walk = {.probe = probe,
                        .fd = fd,
                        .next = *next,
                        .end = end,
                        .deadline = deadline,
                        .ranges = ranges};
    int r = probe->use_cachestat ? walk_cell(&walk, *next, end) : walk_chunks(&walk);
    window_close(&walk);
    *next = walk.next;
    return r;
}

int residency_probe_counts(struct residency_probe *probe, int fd, uint64_t pages,
                           struct residency_counts *ret)
{
    *ret = (struct residency_counts){.pages = pages, .has_cachestat = probe->use_cachestat};
    if (!pages)
        return 0;
    if (pages > (uint64_t)INT64_MAX / probe->page_size + 1)
        return -EFBIG;
    if (!probe->use_cachestat) {
        CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
        uint64_t next = 0;
        int r = residency_probe_walk(probe, fd, &next, pages, NSEC_MAX, &ranges);
        ret->cached = page_ranges_count(&ranges);
        return r;
    }
    struct cachestat_result count;
    int r = look_up(probe, fd, 0, pages, &count);
    if (r)
        return r;
    ret->cached = count.cached;
    ret->dirty = count.dirty;
    ret->writeback = count.writeback;
    ret->evicted = count.evicted;
    ret->recently_evicted = count.recently_evicted;
    return 0;
}

int residency_probe_verify(struct residency_probe *probe, int fd, uint64_t cached,
                           const struct page_ranges *ranges, bool *ret_same)
{
    *ret_same = false;
    if (!probe->use_cachestat)
        return -ENOSYS;
    if (page_ranges_count(ranges) != cached)
        return 0;
    vec_foreach(ranges, range) {
        struct cachestat_result count;
        int r = look_up(probe, fd, range->start, range->end, &count);
        if (r)
            return r;
        if (count.cached != range->end - range->start)
            return 0;
    }
    *ret_same = true;
    return 0;
}

int residency_probe_ranges(struct residency_probe *probe, int fd, struct residency_counts *ret,
                           struct page_ranges *ranges)
{
    page_ranges_clear(ranges);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    uint64_t pages = residency_pages(st.st_size, probe->page_size), next = 0;
    *ret = (struct residency_counts){.pages = pages};
    int r = probe->use_cachestat ? residency_probe_counts(probe, fd, pages, ret) : 0;
    if (r)
        return r;
    bool decided = ret->has_cachestat && (ret->cached == 0 || ret->cached == pages);
    if (decided)
        return ret->cached ? page_ranges_append(ranges, 0, pages) : 0;
    r = residency_probe_walk(probe, fd, &next, pages, NSEC_MAX, ranges);
    if (r)
        return r;
    ret->cached = page_ranges_count(ranges);
    return 0;
}
