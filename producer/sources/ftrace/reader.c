// SPDX-License-Identifier: Apache-2.0
//
// Pages go one by one from the kernel through the event plans into the packet. The working set
// stays in the nearest cache, and memory does not grow with the kernel's buffer.
//
// A read of trace_pipe_raw is cheapest if it takes a full page: the kernel then hands over the page
// instead of copying events. A page that is less than half full means that the reader has caught up
// with the writer; later events wait for the next round. The first page of a round tells nothing:
// it may be the rest of a page that was partly read last time.
//
// The kernel can also map its buffer (TRACE_MMAP_IOCTL_GET_READER, Linux 6.10), which saves the
// copy. But it walks over the events of a mapped page one by one when it hands over the next page:
// 38 to 59 ns an event on Linux 6.18, against 14 to 19 ns with read() and pages of 4 KiB, and 6 to
// 7 ns with pages of 16 KiB. splice() needs a pipe and a second call, and copies the data, too.
//
// Damage (a page that contradicts the ring buffer's layout) costs the rest of that page. It is
// noted in the bundle and in the statistics, and reading goes on.
#include "producer/sources/ftrace/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "producer/sources/ftrace/print_filter.h"
#include "protos/fields.h"

int reader_init(struct reader *reader, size_t page_size, struct packet_writer *writer,
                const struct compact_format *compact)
{
    reader->page_size = page_size;
    reader->page = memory_malloc(page_size);
    if (!reader->page)
        return -ENOMEM;
    return bundle_init(&reader->bundle, writer, &reader->context, compact);
}

void reader_done(struct reader *reader)
{
    for (size_t i = 0; i < reader->n_cpus; i++) {
        close_fd(reader->cpus[i].fd);
        close_fd(reader->cpus[i].stats_fd);
    }
    free(reader->cpus);
    reader->cpus = NULL;
    reader->n_cpus = 0;
    free(reader->page);
    reader->page = NULL;
    bundle_done(&reader->bundle);
}

int reader_add_cpu(struct reader *reader, uint32_t cpu, int fd)
{
    struct reader_cpu *cpus = realloc(reader->cpus, (reader->n_cpus + 1) * sizeof(*cpus));
    if (!cpus) {
        close_fd(fd);
        return -ENOMEM;
    }
    reader->cpus = cpus;
    cpus[reader->n_cpus++] = (struct reader_cpu){.cpu = cpu, .fd = fd, .stats_fd = -1};
    return 0;
}

static void note_status(struct reader *reader, uint64_t timestamp, enum page_status status)
{
    reader->statuses |= UINT32_C(1) << status;
    bundle_add_error(&reader->bundle, timestamp, status);
}

static void keep_bad_page(struct reader *reader, const void *page, size_t size)
{
    struct bundle *bundle = &reader->bundle;
    bundle->want = size + 64;
    bundle_next(bundle);
    if (bundle->wire && wire_room(bundle->wire) >= size + 64)
        wire_bytes(bundle->wire, PB_FtraceEventBundle_broken_abi_trace_page, page, size);
}

static bool is_wanted_print(const struct reader *reader, const struct page_record *record)
{
    if (record->size <= reader->print_text)
        return true;
    return print_filter_allows(reader->print_filter,
                               (const char *)record->data + reader->print_text,
                               record->size - reader->print_text);
}

static inline bool add_record(struct reader *reader, const struct page_record *record)
{
    struct bundle *bundle = &reader->bundle;
    const struct compact_sched *compact = bundle->compact;
    if (compact &&
        (record->id == compact->format.switch_id || record->id == compact->format.waking_id))
        return bundle_add_compact(bundle, record);
    const struct event_plan *plan = reader->plans[record->id];
    if (__builtin_expect(reader->print_filter && record->id == reader->print_id, 0) &&
        !is_wanted_print(reader, record))
        return true;
    return bundle_add(bundle, plan, record);
}

static nsec_t boot_time_of(const struct reader *reader, const struct page_record *record)
{
    const struct bundle_head *clock = &reader->clock;
    int64_t time = (int64_t)record->timestamp;
    return clock->clock ? clock->boot_time + (time - clock->ftrace_time) : time;
}

// Publishes the end of a task. Other events are of no interest.
static void publish_end(const struct reader *reader, const struct page_record *record)
{
    const struct exit_format *exits = &reader->exits;
    bool is_exit = exits->id && record->id == exits->id;
    if (!is_exit && !(reader->frees.id && record->id == reader->frees.id))
        return;
    uint16_t pid = is_exit ? exits->pid : reader->frees.pid;
    struct task_end end = {
        .cpu = reader->bundle.head.cpu,
        .time = boot_time_of(reader, record),
        .name = (const char *)record->data + exits->comm,
        .size = is_exit ? exits->comm_size : 0,
    };
    if (record->size < pid + sizeof(end.tid) ||
        (is_exit && record->size < exits->comm + exits->comm_size))
        return;
    memcpy(&end.tid, record->data + pid, sizeof(end.tid));
    if (is_exit)
        pid_feed_exit(reader->context.pids, &end);
    else
        pid_feed_free(reader->context.pids, &end);
}

static void parse_records(struct reader *reader, struct page_reader *page)
{
    struct page_record record;
    while (page_next(page, &record)) {
        if (record.id >= reader->n_plans || !reader->plans[record.id]) {
            publish_end(reader, &record);
            continue;
        }
        if (__builtin_expect(!add_record(reader, &record), 0)) {
            reader->counts.bad_events++;
            note_status(reader, record.timestamp, PAGE_BAD_EVENT);
        }
    }
}

// A bundle says once whether events were lost before it, so a page after a loss begins a new
// bundle.
static void parse_page(struct reader *reader, const void *bytes, size_t size)
{
    struct page_reader page;
    struct bundle *bundle = &reader->bundle;
    reader->counts.pages++;
    bool sound = page_open(&page, &reader->layout, bytes, size);
    uint64_t start = page.timestamp;
    if (page.lost) {
        reader->counts.lost += page.n_lost;
        reader->counts.losses++;
        bundle->head.lost = true;
        bundle_next(bundle);
    }
    if (sound)
        parse_records(reader, &page);
    if (page.status == PAGE_OK)
        return;
    note_status(reader, start, page.status);
    if (reader->keep_bad_pages)
        keep_bad_page(reader, bytes, size);
}

// Returns false if there is no page now.
static bool read_page(struct reader *reader, struct reader_cpu *cpu)
{
    ssize_t n;
    do {
        n = read(cpu->fd, reader->page, reader->page_size);
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)reader->page_size)
        return true;
    // The last three mean that the kernel is busy, or that the CPU is offline.
    if (n < 0 && errno != EAGAIN && errno != ENOMEM && errno != EBUSY && errno != ENODEV)
        note_status(reader, 0, PAGE_READ_ERROR);
    else if (n > 0)
        note_status(reader, 0, PAGE_PARTIAL_READ);
    return false;
}

static void start_cpu(struct reader *reader, const struct reader_cpu *cpu)
{
    struct bundle_head head = reader->clock;
    head.cpu = cpu->cpu;
    head.previous_end = cpu->last_time;
    bundle_start(&reader->bundle, &head);
}

static void finish_cpu(struct reader *reader, struct reader_cpu *cpu)
{
    bundle_close(&reader->bundle);
    cpu->last_time = reader->bundle.last_time;
    reader->counts.events = reader->bundle.n_events;
    reader->counts.refused = reader->bundle.n_refused;
}

enum reader_progress reader_drain(struct reader *reader, size_t index, size_t max_pages,
                                  bool everything)
{
    struct reader_cpu *cpu = &reader->cpus[index];
    enum reader_progress progress = READER_MORE;
    size_t n = 0;
    start_cpu(reader, cpu);
    for (; n < max_pages; n++) {
        if (!read_page(reader, cpu)) {
            progress = READER_CAUGHT_UP;
            break;
        }
        size_t used = page_used(reader->page);
        bool full = used >= reader->layout.data_size / 2;
        reader->bundle.want = full ? SIZE_MAX : 2 * used;
        parse_page(reader, reader->page, reader->page_size);
        if (!full && !everything && n) {
            progress = READER_CAUGHT_UP;
            break;
        }
    }
    finish_cpu(reader, cpu);
    return progress;
}

void reader_parse(struct reader *reader, size_t index, const void *page, size_t size)
{
    start_cpu(reader, &reader->cpus[index]);
    parse_page(reader, page, size);
    finish_cpu(reader, &reader->cpus[index]);
}
