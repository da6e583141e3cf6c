// SPDX-License-Identifier: Apache-2.0
//
// The folder, and the list of entries (armed_entry.h). Entries are released in run_due() alone. So
// no caller is ever left with an entry or a session that is gone.
//
// A look at the folder compares what stat() says with what it said. inotify only says when to look,
// a moment later, when a config that is copied in is complete.
#include "producer/service/armed/armed.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/service/armed/armed_entry.h"

#define LOOK_DELAY (100 * NSEC_PER_MSEC)
#define LOOK_AGAIN (60 * NSEC_PER_SEC) // where the folder cannot be read
#define FOLDER_EVENTS                                                                              \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF | IN_ONLYDIR)

DEFINE_CLEANUP(armed_freep, struct armed, armed_free);

void armed_wake_up(struct armed *armed)
{
    if (armed->timer)
        loop_set_timer(armed->timer, armed_next_due(armed), 0);
}

// -- the folder --

static struct entry *find_entry(const struct armed *armed, const char *name)
{
    for (size_t i = 0; i < armed->entries.n; i++)
        if (str_eq(armed->entries.items[i]->name, name))
            return armed->entries.items[i];
    return NULL;
}

static void look_at(struct armed *armed, const char *name, const struct stat *st)
{
    struct entry *entry = find_entry(armed, name);
    if (!entry) {
        if (armed->entries.n >= ARMED_CONFIGS_MAX) {
            log_error(armed->options.log, "armed/%s: left alone, there are %d configs already",
                      name, ARMED_CONFIGS_MAX);
            return;
        }
        entry = entry_add(armed, name);
        if (!entry)
            return;
        entry->seen = true;
        entry_load(entry);
        return;
    }
    entry->seen = true;
    if (entry_has_changed(entry, st))
        entry_end(entry, THEN_LOAD);
    else if (entry->state == ENDING && entry->then == THEN_GO)
        entry->then = THEN_LOAD; // it went and came back
}

static int look(struct armed *armed)
{
    DIR *dir = opendir(armed->options.folder);
    int r = dir ? 0 : -errno;
    armed->look_due = dir ? NSEC_MAX : armed_now(armed) + LOOK_AGAIN;
    if (armed_may_pass(r))
        return r;
    for (size_t i = 0; i < armed->entries.n; i++)
        armed->entries.items[i]->seen = false;
    struct dirent *file;
    while (dir && (file = readdir(dir))) {
        const char *name = file->d_name;
        struct stat st;
        if (*name == '.' || !str_ends_with(name, ARMED_SUFFIX) ||
            strlen(name) == strlen(ARMED_SUFFIX))
            continue;
        struct entry *known = find_entry(armed, name);
        if (fstatat(dirfd(dir), name, &st, 0) == 0)
            look_at(armed, name, &st);
        else if (known)
            known->seen = armed_may_pass(-errno);
    }
    for (size_t i = 0; i < armed->entries.n; i++)
        if (!armed->entries.items[i]->seen)
            entry_end(armed->entries.items[i], THEN_GO);
    if (dir)
        closedir(dir);
    return r;
}

static void folder_ready(void *userdata, uint32_t events)
{
    struct armed *armed = userdata;
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    (void)events;
    while (read(armed->watch_fd, buffer, sizeof(buffer)) > 0)
        ;
    armed->look_due = armed_now(armed) + LOOK_DELAY;
    armed_wake_up(armed);
}

// The same folder under the same name is watched once, however often this is called.
static int watch_folder(struct armed *armed)
{
    if (armed->watch_fd < 0)
        return 0;
    int r = inotify_add_watch(armed->watch_fd, armed->options.folder, FOLDER_EVENTS);
    return r < 0 ? -errno : 0;
}

// -- time --

nsec_t armed_next_due(const struct armed *armed)
{
    nsec_t next = armed->ending ? NSEC_MAX : armed->look_due;
    for (size_t i = 0; i < armed->entries.n; i++) {
        nsec_t due = entry_due(armed->entries.items[i]);
        if (due < next)
            next = due;
    }
    return next;
}

static void run_entry(struct armed *armed, size_t index)
{
    struct entry *entry = armed->entries.items[index];
    if (entry->snapshots) {
        entry_finish_snapshots(entry);
    } else if (entry->state == WAITING) {
        entry_try_session(entry);
    } else if (entry->then == THEN_LOAD && !armed->ending) {
        entry_load(entry);
    } else if (entry->then == THEN_GO || armed->ending) {
        entry->state = ALONE; // its session is gone
        log_info(armed->options.log, "%s: not armed any more", entry->title);
        memmove(&armed->entries.items[index], &armed->entries.items[index + 1],
                (armed->entries.n - index - 1) * sizeof(armed->entries.items[0]));
        armed->entries.n--;
        entry_free(entry);
    }
}

// A folder that was away may be another one now.
static void look_again(struct armed *armed)
{
    int watched = watch_folder(armed), r = look(armed);
    if (watched < 0)
        armed->look_due = armed_now(armed) + LOOK_AGAIN;
    if (r == 0)
        r = watched;
    if (r < 0 && !armed->unreadable)
        log_warning(armed->options.log, "%s cannot be read: %s", armed->options.folder,
                    strerror(-r));
    armed->unreadable = r < 0;
}

void armed_run_due(struct armed *armed)
{
    nsec_t now = armed_now(armed);
    if (!armed->ending && armed->look_due <= now)
        look_again(armed);
    for (size_t i = armed->entries.n; i-- > 0;) {
        if (entry_due(armed->entries.items[i]) <= now)
            run_entry(armed, i);
    }
    armed_wake_up(armed);
    if (armed->ending && !armed->entries.n && armed->done) {
        void (*done)(void *) = armed->done;
        armed->done = NULL;
        done(armed->done_userdata);
    }
}

static void timer_fired(void *userdata, nsec_t due, uint64_t n_due)
{
    (void)due;
    (void)n_due;
    armed_run_due(userdata);
}

// -- all of them --

int armed_new(const struct armed_options *options, struct armed **ret, struct err *err)
{
    CLEANUP(armed_freep) struct armed *armed = calloc(1, sizeof(*armed));
    if (!armed)
        return err_errno(err, -ENOMEM, "%s", options->folder);
    armed->options = *options;
    armed->look_due = NSEC_MAX;
    armed->watch_fd = options->loop ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
    int r = options->loop && armed->watch_fd < 0 ? -errno : watch_folder(armed);
    if (r == 0 && options->loop)
        r = loop_add_timer(options->loop, NSEC_MAX, 0, timer_fired, armed, &armed->timer);
    if (r == 0 && options->loop)
        r = loop_add_io(options->loop, armed->watch_fd, EPOLLIN, folder_ready, armed,
                        &armed->watch_io);
    if (r == 0)
        r = look(armed);
    if (r < 0)
        return err_errno(err, r, "%s", options->folder);
    armed_run_due(armed);
    *ret = STEAL(armed);
    return 0;
}

struct armed *armed_free(struct armed *armed)
{
    if (!armed)
        return NULL;
    for (size_t i = 0; i < armed->entries.n; i++)
        entry_free(armed->entries.items[i]);
    entry_vec_done(&armed->entries);
    if (armed->watch_io)
        loop_remove_io(armed->watch_io);
    if (armed->timer)
        loop_remove_timer(armed->timer);
    close_fd(armed->watch_fd);
    free(armed);
    return NULL;
}

void armed_reload(struct armed *armed)
{
    if (armed->ending)
        return;
    look_again(armed);
    for (size_t i = 0; i < armed->entries.n; i++) {
        struct entry *entry = armed->entries.items[i];
        if (entry->state == ENDING && !entry->session_id)
            entry->due = armed_now(armed);
        if (entry->state != ALONE && entry->state != WAITING)
            continue;
        free(entry->complaint);
        entry->complaint = NULL;
        entry_load(entry);
    }
    armed_run_due(armed);
}

void armed_end(struct armed *armed, void (*done)(void *userdata), void *userdata)
{
    armed->ending = true;
    armed->done = done;
    armed->done_userdata = userdata;
    for (size_t i = 0; i < armed->entries.n; i++)
        entry_end(armed->entries.items[i], THEN_GO);
    armed_run_due(armed);
}

size_t armed_list_folders(const struct armed *armed, struct service_trace_folder *ret, size_t n)
{
    size_t n_listed = 0;
    for (size_t i = 0; i < armed->entries.n && n_listed < n; i++) {
        const struct entry *entry = armed->entries.items[i];
        if (!entry->output_folder || !entry->output_stem || !entry->config.trace)
            continue;
        ret[n_listed++] = (struct service_trace_folder){
            .path = entry->output_folder,
            .stem = entry->output_stem,
            .bugreport_score = entry->config.trace->bugreport_score,
        };
    }
    return n_listed;
}

void armed_get_counts(const struct armed *armed, struct armed_counts *ret)
{
    *ret = (struct armed_counts){.configs = armed->entries.n, .files = armed->n_files};
    for (size_t i = 0; i < armed->entries.n; i++) {
        ret->live += armed->entries.items[i]->state == LIVE;
        ret->left_alone += armed->entries.items[i]->state == ALONE;
    }
}
