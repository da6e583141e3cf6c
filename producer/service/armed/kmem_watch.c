// SPDX-License-Identifier: Apache-2.0
//
// The watch waits for an instance's `trace_pipe`: this file covers all CPUs, and the first event
// wakes its reader whatever `buffer_percent` says. (The files of single CPUs wait until their
// buffer is filled to this percentage.) The text also has the event's name and time. Nothing else
// is written into the instance, so that nothing else wakes the reader.
//
// After a hit, `tracing_on` switches the instance off. The events stay enabled, because switching
// events patches kernel code on all CPUs. `tracing_on` is opened beforehand, because memory is
// short at a hit. Before the watch continues, the buffer is emptied by reads. A write into `trace`
// would wait for the kernel for about 20 ms.
//
// PSI triggers live as long as their file is open. They are closed during the rest, so that the
// kernel does not measure for nothing.
#include "producer/service/armed/kmem_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/sources/ftrace/tracefs.h"

#define TEXT_MAX       4096
#define PSI_TEXT_MAX   64
#define PSI_STEP_USEC  2000000ull
#define READS_MAX      100000 // enough to empty the buffer, which is off and cannot grow
#define BUFFER_SIZE_KB "4"    // of each CPU
#define HITS_KEPT      24     // limits the doublings of the rest

struct psi_threshold {
    struct kmem_watch *watch;
    const char *text; // borrowed
    int fd;           // -1 during the rest
    struct loop_io *io;
    bool failed; // the log says already that it failed
};

struct kmem_watch {
    struct kmem_watch_options options;
    struct tracefs fs;
    int pipe_fd;   // trace_pipe; -1: events are not watched
    int switch_fd; // tracing_on; -1: events are not watched
    struct loop_io *pipe_io;
    const char *events[KMEM_WATCH_EVENTS_MAX]; // borrowed; the enabled events
    size_t n_events;
    struct psi_threshold psi[KMEM_WATCH_PSI_MAX];
    size_t n_psi;
    struct loop_timer *rest;
    bool resting;
    nsec_t rests_until;
    nsec_t armed_at;
    uint64_t n_hits;
    nsec_t hits[HITS_KEPT]; // boot times of the last hits; hit N is in hits[N % HITS_KEPT]
};

DEFINE_CLEANUP(watch_freep, struct kmem_watch, kmem_watch_free);

// -- parsing the kernel's texts --

bool kmem_watch_parse(const char *text, size_t size, nsec_t earliest, nsec_t latest,
                      struct trace_line *ret)
{
    const char *end = text + size;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *line_end = newline ? newline : end;
        // The text has only whole microseconds.
        if (trace_line_parse(text, line_end, earliest - NSEC_PER_USEC, latest, ret)) {
            ret->time = ret->time < earliest ? earliest : ret->time;
            return true;
        }
        text = line_end + 1;
    }
    return false;
}

// Splits the text of a threshold. The kernel's part is text[0..*ret_size). *ret_path is the file
// after it, or NULL for all tasks.
static bool parse_psi(const char *text, uint64_t *ret_stall, uint64_t *ret_window, size_t *ret_size,
                      const char **ret_path)
{
    const char *end = text + strlen(text), *cursor = text + strlen("some ");
    *ret_path = NULL;
    if ((!str_starts_with(text, "some ") && !str_starts_with(text, "full ")) ||
        !str_scan_u64(&cursor, end, ret_stall) || !str_scan_u64(&cursor, end, ret_window))
        return false;
    *ret_size = (size_t)(cursor - text);
    if (cursor == end)
        return *ret_size < PSI_TEXT_MAX;
    *ret_path = cursor + 1;
    return *ret_size < PSI_TEXT_MAX && cursor[0] == ' ' && cursor[1] == '/';
}

int kmem_watch_check_psi(const char *text, struct err *err)
{
    uint64_t stall, window;
    size_t size;
    const char *path;
    if (!parse_psi(text, &stall, &window, &size, &path)) {
        err_set(err, -EINVAL, "\"%s\": not a pressure threshold", text);
        return err_hint(err, -EINVAL,
                        "some|full STALL_USEC WINDOW_USEC [FILE], as in \"" KMEM_WATCH_PSI_DEFAULT
                        "\"; FILE is a cgroup's memory.pressure");
    }
    if (window < 500000 || window > 10000000 || stall == 0 || stall > window)
        return err_set(err, -EINVAL,
                       "\"%s\": the window is 500000 to 10000000 us, the stall at most the window",
                       text);
    return 0;
}

// -- the switch --

static void switch_events(const struct kmem_watch *watch, bool on)
{
    if (watch->switch_fd < 0)
        return;
    ssize_t n = pwrite(watch->switch_fd, on ? "1" : "0", 1, 0);
    if (n < 0)
        log_warning(watch->options.log, "%s/tracing_on: %s", watch->fs.path, strerror(errno));
}

static void drain(const struct kmem_watch *watch)
{
    char text[TEXT_MAX];
    for (unsigned i = 0; i < READS_MAX && read(watch->pipe_fd, text, sizeof(text)) > 0; i++)
        ;
}

static void close_psi(struct psi_threshold *psi)
{
    psi->io = loop_remove_io(psi->io);
    psi->fd = close_fd(psi->fd);
}

// Returns the time to rest after the latest hit.
static nsec_t rest_after(const struct kmem_watch *watch, nsec_t now)
{
    nsec_t rest = watch->options.rest;
    uint64_t n_kept = watch->n_hits < HITS_KEPT ? watch->n_hits : HITS_KEPT;
    for (uint64_t i = 2; i <= n_kept && rest < watch->options.rest_max; i++)
        if (now - watch->hits[(watch->n_hits - i) % HITS_KEPT] < KMEM_WATCH_HOUR)
            rest *= 2;
    if (watch->options.rest_max >= watch->options.rest && rest > watch->options.rest_max)
        rest = watch->options.rest_max;
    return rest;
}

// Stops the watch for a while. The caller closes the PSI triggers later, because a close waits for
// the kernel, for about 15 ms.
static void fall_silent(struct kmem_watch *watch, nsec_t until)
{
    watch->resting = true;
    watch->rests_until = until;
    switch_events(watch, false);
    if (watch->pipe_io)
        loop_set_io(watch->pipe_io, 0);
    loop_set_timer(watch->rest, until, 0);
}

static void close_all_psi(struct kmem_watch *watch)
{
    for (size_t i = 0; i < watch->n_psi; i++)
        close_psi(&watch->psi[i]);
}

static void hit(struct kmem_watch *watch, nsec_t now, const struct kmem_watch_hit *hit)
{
    watch->hits[watch->n_hits++ % HITS_KEPT] = now;
    fall_silent(watch, now + rest_after(watch, now));
    watch->options.hit(watch->options.userdata, hit);
    close_all_psi(watch);
}

void kmem_watch_rest_until(struct kmem_watch *watch, nsec_t until)
{
    if (watch->resting && watch->rests_until >= until)
        return;
    fall_silent(watch, until);
    close_all_psi(watch);
}

static void pipe_ready(void *userdata)
{
    struct kmem_watch *watch = userdata;
    char text[TEXT_MAX];
    if (watch->resting)
        return;
    ssize_t n = read(watch->pipe_fd, text, sizeof(text));
    if (n <= 0)
        return;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    struct kmem_watch_hit found = {.time = now, .what = watch->events[0]};
    struct trace_line line;
    if (kmem_watch_parse(text, (size_t)n, watch->armed_at, now, &line)) {
        found.time = line.time;
        for (size_t i = 0; i < watch->n_events; i++)
            if (text_eq(text_from(strchr(watch->events[i], '/') + 1), line.event))
                found.what = watch->events[i];
        snprintf(found.detail, sizeof(found.detail), "%s%.*s%s%.*s", line.task.size ? " by " : "",
                 (int)line.task.size, line.task.at, line.arguments.size ? ":" : "",
                 (int)line.arguments.size, line.arguments.at);
    }
    hit(watch, now, &found);
}

static void psi_ready(void *userdata)
{
    struct psi_threshold *psi = userdata;
    struct kmem_watch *watch = psi->watch;
    uint32_t events = loop_get_call(watch->options.loop)->events;
    if (watch->resting)
        return;
    if (!(events & EPOLLPRI) || (events & EPOLLERR)) {
        log_warning(watch->options.log, "pressure threshold \"%s\": the kernel closed it",
                    psi->text);
        psi->failed = true;
        close_psi(psi);
        return;
    }
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    struct kmem_watch_hit found = {.time = now, .what = psi->text};
    hit(watch, now, &found);
}

// Without CAP_SYS_RESOURCE the kernel accepts only windows in steps of two seconds.
static int write_psi(int fd, const char *text, size_t size, uint64_t stall, uint64_t window)
{
    char kernel_text[PSI_TEXT_MAX] = "";
    memcpy(kernel_text, text, size);
    if (write(fd, kernel_text, size + 1) >= 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    uint64_t wider = (window + PSI_STEP_USEC - 1) / PSI_STEP_USEC * PSI_STEP_USEC;
    int n = snprintf(kernel_text, sizeof(kernel_text), "%.4s %" PRIu64 " %" PRIu64, text,
                     stall * wider / window, wider);
    return write(fd, kernel_text, (size_t)n + 1) < 0 ? -errno : 0;
}

static int open_psi(struct psi_threshold *psi)
{
    struct kmem_watch *watch = psi->watch;
    CLEANUP(freep) char *system_path = NULL;
    uint64_t stall, window;
    size_t size;
    const char *path;
    if (!parse_psi(psi->text, &stall, &window, &size, &path))
        return -EINVAL;
    if (!path && asprintf(&system_path, "%s/pressure/memory", watch->options.roots->proc) < 0) {
        system_path = NULL;
        return -ENOMEM;
    }
    CLEANUP(close_fdp)
    int fd = open(path ? path : system_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = write_psi(fd, psi->text, size, stall, window);
    if (r < 0)
        return r;
    r = loop_add_io(watch->options.loop, fd, EPOLLPRI, psi_ready, psi, &psi->io);
    if (r == 0)
        psi->fd = steal_fd(&fd);
    return r;
}

static enum log_level level_of_lacks(const struct kmem_watch *watch)
{
    return watch->options.is_default ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING;
}

static void arm_psi(struct psi_threshold *psi)
{
    int r = open_psi(psi);
    if (r < 0 && !psi->failed)
        log_line(psi->watch->options.log, level_of_lacks(psi->watch),
                 "pressure threshold \"%s\" is not watched: %s", psi->text, strerror(-r));
    psi->failed = r < 0;
}

static void arm(void *userdata)
{
    struct kmem_watch *watch = userdata;
    if (watch->pipe_fd >= 0) {
        drain(watch);
        loop_set_io(watch->pipe_io, EPOLLIN);
    }
    watch->armed_at = nsec_now(CLOCK_BOOTTIME);
    switch_events(watch, true);
    for (size_t i = 0; i < watch->n_psi; i++)
        arm_psi(&watch->psi[i]);
    watch->resting = false;
}

// -- setting up --

static int enable_event(struct kmem_watch *watch, const char *event)
{
    const char *slash = strchr(event, '/');
    if (!slash || slash == event || strchr(slash + 1, '/') || !slash[1] || strstr(event, ".."))
        return -EINVAL;
    CLEANUP(freep) char *path = NULL;
    if (asprintf(&path, "events/%s/enable", event) < 0)
        return -ENOMEM;
    int r = tracefs_change(&watch->fs, path, "1");
    if (r == 0)
        watch->events[watch->n_events++] = event;
    return r;
}

// Sets the options of the instance: the text must have times, and a reader must be able to wait.
static void set_options(struct kmem_watch *watch)
{
    static const char *const options[][2] = {
        {"options/context-info", "1"}, {"options/raw", "0"},   {"options/hex", "0"},
        {"options/bin", "0"},          {"options/block", "0"},
    };
    for (size_t i = 0; i < ELEMENTS(options); i++)
        tracefs_change(&watch->fs, options[i][0],
                       options[i][1]); // not all kernels have all options
}

static int open_files(struct kmem_watch *watch, struct err *err)
{
    CLEANUP(freep) char *pipe_path = NULL, *switch_path = NULL;
    if (asprintf(&pipe_path, "%s/trace_pipe", watch->fs.path) < 0 ||
        asprintf(&switch_path, "%s/tracing_on", watch->fs.path) < 0)
        return -ENOMEM;
    watch->pipe_fd = open(pipe_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (watch->pipe_fd < 0)
        return err_errno(err, -errno, "%s", pipe_path);
    watch->switch_fd = open(switch_path, O_WRONLY | O_CLOEXEC);
    if (watch->switch_fd < 0)
        return err_errno(err, -errno, "%s", switch_path);
    int r = loop_add_io(watch->options.loop, watch->pipe_fd, 0, pipe_ready, watch, &watch->pipe_io);
    return r < 0 ? err_errno(err, r, "%s", pipe_path) : 0;
}

static int open_events(struct kmem_watch *watch, struct err *err)
{
    const struct kmem_watch_options *o = &watch->options;
    if (!o->roots->tracefs)
        return err_set(err, -ENOENT, "no tracefs is mounted");
    struct tracefs_options options = {
        .root = o->roots->tracefs,
        .proc = o->roots->proc,
        .state_dir = o->roots->run ? o->roots->run : TRACEFS_STATE_DIR,
        .instance = o->instance,
    };
    int r = tracefs_open(&options, &watch->fs, err);
    if (r < 0)
        return r;
    r = tracefs_change(&watch->fs, "tracing_on", "0");
    if (r == 0)
        r = tracefs_change(&watch->fs, "buffer_size_kb", BUFFER_SIZE_KB);
    if (r == 0)
        r = tracefs_change(&watch->fs, "trace_clock", "boot");
    if (r < 0)
        return err_errno(err, r, "%s", watch->fs.path);
    set_options(watch);
    for (const char *const *event = o->events; *event; event++) {
        r = watch->n_events < KMEM_WATCH_EVENTS_MAX ? enable_event(watch, *event) : -E2BIG;
        if (r < 0)
            log_line(o->log, level_of_lacks(watch), "event \"%s\" is not watched: %s", *event,
                     r == -EINVAL ? "not of the form group/name" : strerror(-r));
    }
    if (!watch->n_events)
        return err_set(err, -ENOENT, "this kernel has none of the events");
    return open_files(watch, err);
}

static void close_events(struct kmem_watch *watch)
{
    switch_events(watch, false);
    watch->pipe_io = loop_remove_io(watch->pipe_io);
    watch->pipe_fd = close_fd(watch->pipe_fd);
    watch->switch_fd = close_fd(watch->switch_fd);
    tracefs_close(&watch->fs, watch->options.log);
    watch->n_events = 0;
}

static int add_psi(struct kmem_watch *watch, struct err *err)
{
    for (const char *const *text = watch->options.psi; text && *text; text++) {
        if (watch->n_psi == KMEM_WATCH_PSI_MAX)
            return err_set(err, -E2BIG, "more than %d pressure thresholds", KMEM_WATCH_PSI_MAX);
        int r = kmem_watch_check_psi(*text, err);
        if (r < 0)
            return r;
        watch->psi[watch->n_psi++] = (struct psi_threshold){
            .watch = watch,
            .text = *text,
            .fd = -1,
        };
    }
    return 0;
}

int kmem_watch_new(const struct kmem_watch_options *options, struct kmem_watch **ret,
                   struct err *err)
{
    CLEANUP(watch_freep) struct kmem_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return -ENOMEM;
    watch->options = *options;
    watch->fs.journal_fd = watch->pipe_fd = watch->switch_fd = -1;
    int r = add_psi(watch, err);
    if (r == 0)
        r = loop_add_timer(options->loop, NSEC_MAX, 0, arm, watch, &watch->rest);
    if (r < 0)
        return r;
    struct err why = {0};
    int events_r = options->events && *options->events ? open_events(watch, &why) : -ENOENT;
    if (events_r < 0)
        close_events(watch);
    arm(watch);
    bool any = events_r == 0;
    for (size_t i = 0; i < watch->n_psi; i++)
        any |= watch->psi[i].fd >= 0;
    if (!any) {
        err_set(err, -ENODEV, "no sign of short memory can be watched%s%s", why.text[0] ? ": " : "",
                why.text);
        return err_hint(err, -ENODEV, "%s", why.hint);
    }
    if (why.text[0])
        log_warning(options->log, "events of the kernel are not watched: %s", why.text);
    *ret = STEAL(watch);
    return 0;
}

struct kmem_watch *kmem_watch_free(struct kmem_watch *watch)
{
    if (!watch)
        return NULL;
    for (size_t i = 0; i < watch->n_psi; i++)
        close_psi(&watch->psi[i]);
    close_events(watch);
    watch->rest = loop_remove_timer(watch->rest);
    free(watch);
    return NULL;
}

bool kmem_watch_resting(const struct kmem_watch *watch)
{
    return watch->resting;
}

uint64_t kmem_watch_hits(const struct kmem_watch *watch)
{
    return watch->n_hits;
}
