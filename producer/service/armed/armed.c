// SPDX-License-Identifier: Apache-2.0
//
// The places, and the list of entries (armed_entry.h). Entries are released only in run_due().
// Therefore a caller never holds a released entry or session.
//
// A look at a place compares the results of stat() with the previous results. inotify only starts a
// look. The look follows a moment later, when a config that is being copied is complete.
#include "producer/service/armed/armed.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/service/armed/armed_closing.h"
#include "producer/service/armed/armed_entry.h"
#include "producer/service/armed/armed_recover.h"

#define PLACES_TEXT_MAX 512
#define LOOK_DELAY      (100 * NSEC_PER_MSEC)
#define LOOK_AGAIN      (60 * NSEC_PER_SEC) // if the folder cannot be read
#define FOLDER_EVENTS                                                                              \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF | IN_ONLYDIR)

DEFINE_CLEANUP(armed_freep, struct armed, armed_free);

void armed_wake_up(struct armed *armed)
{
    if (armed->timer)
        loop_set_timer(armed->timer, armed_next_due(armed), 0);
}

// -- the places --

static struct entry *find_entry(const struct armed *armed, const char *name)
{
    for (size_t i = 0; i < armed->entries.n; i++)
        if (str_eq(armed->entries.items[i]->name, name))
            return armed->entries.items[i];
    return NULL;
}

// Looks at one config. Returns 0, or -ENOMEM if another look is needed.
static int look_at(struct armed *armed, const char *folder, const char *name, const struct stat *st)
{
    struct entry *entry = find_entry(armed, name);
    if (!entry) {
        if (armed->entries.n >= ARMED_CONFIGS_MAX) {
            log_error(armed->options.log, "armed/%s: left alone, there are %d configs already",
                      name, ARMED_CONFIGS_MAX);
            return 0;
        }
        entry = entry_add(armed, folder, name);
        if (!entry)
            return -ENOMEM;
        entry->seen = true;
        entry_load(entry);
        return 0;
    }
    if (entry->seen) // the config has the same name in an earlier place
        return 0;
    entry->seen = true;
    if (!str_eq(entry->folder, folder))
        entry_move(entry, folder);
    if (entry_has_changed(entry, st))
        entry_end(entry, THEN_LOAD);
    else if (entry->state == ENDING && entry->then == THEN_GO)
        entry->then = THEN_LOAD; // the config went and came back
    return 0;
}

// Looks at one config of an open folder.
static int look_for(struct armed *armed, int folder_fd, const char *folder, const char *name)
{
    struct entry *known = find_entry(armed, name);
    struct stat st;
    if (fstatat(folder_fd, name, &st, 0) == 0)
        return look_at(armed, folder, name, &st);
    int r = -errno;
    if (known && armed_may_pass(r))
        known->seen = true;
    return r;
}

// Looks at all configs of a folder. Returns 0 or -ENOMEM. A config that disappeared meanwhile is
// skipped.
static int look_through(struct armed *armed, DIR *dir, const char *folder)
{
    struct dirent *file;
    int r = 0;
    while (r == 0 && (file = readdir(dir)))
        if (*file->d_name != '.' && str_ends_with(file->d_name, ARMED_SUFFIX) &&
            strlen(file->d_name) > strlen(ARMED_SUFFIX) &&
            look_for(armed, dirfd(dir), folder, file->d_name) == -ENOMEM)
            r = -ENOMEM;
    return r;
}

// Sets *ret_folder (owned by the caller) and *ret_name: the file name of the place's only config,
// or NULL for a folder.
static int split_place(const struct armed_place *place, char **ret_folder, const char **ret_name)
{
    const char *slash = strrchr(place->path, '/');
    bool is_file = str_ends_with(place->path, ARMED_SUFFIX);
    char *folder = !is_file ? strdup(place->path)
                   : !slash || slash == place->path
                       ? strdup(slash ? "/" : ".")
                       : strndup(place->path, (size_t)(slash - place->path));
    if (!folder)
        return -ENOMEM;
    *ret_folder = folder;
    *ret_name = !is_file ? NULL : slash ? slash + 1 : place->path;
    return 0;
}

static int look_into(struct armed *armed, const struct armed_place *place, DIR *dir,
                     const char *folder, const char *name)
{
    if (!name)
        return look_through(armed, dir, folder);
    int r = look_for(armed, dirfd(dir), folder, name);
    return place->optional && r != -ENOMEM ? 0 : r;
}

struct opened_place {
    DIR *dir;     // owned; NULL: the folder cannot be read
    char *folder; // owned
    const char *name;
};

static int open_place(const struct armed_place *place, struct opened_place *ret)
{
    int r = split_place(place, &ret->folder, &ret->name);
    if (r < 0)
        return r;
    ret->dir = opendir(ret->folder);
    r = ret->dir ? 0 : -errno;
    return place->optional && (r == -ENOENT || r == -ENOTDIR) ? 0 : r;
}

// Looks at all places. If a place is unreadable for the moment, missing configs stay armed.
static int look(struct armed *armed)
{
    struct opened_place opened[ARMED_PLACES_MAX] = {0};
    size_t n = armed->options.n_places;
    int r = 0;
    for (size_t i = 0; i < n && !armed_may_pass(r); i++) {
        int place_r = open_place(&armed->options.places[i], &opened[i]);
        r = r == 0 || armed_may_pass(place_r) ? place_r : r;
    }
    bool may_pass = armed_may_pass(r);
    for (size_t i = 0; i < armed->entries.n && !may_pass; i++)
        armed->entries.items[i]->seen = false;
    for (size_t i = 0; i < n; i++) {
        struct opened_place *place = &opened[i];
        if (place->dir && !may_pass) {
            int place_r =
                look_into(armed, &armed->options.places[i], place->dir, place->folder, place->name);
            r = r == 0 ? place_r : r;
        }
        if (place->dir)
            closedir(place->dir);
        free(place->folder);
    }
    for (size_t i = 0; i < armed->entries.n && !may_pass && r != -ENOMEM; i++)
        if (!armed->entries.items[i]->seen)
            entry_end(armed->entries.items[i], THEN_GO);
    armed->look_due = r < 0 ? armed_now(armed) + LOOK_AGAIN : NSEC_MAX;
    return r;
}

static void folder_ready(void *userdata)
{
    struct armed *armed = userdata;
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    while (read(armed->watch_fd, buffer, sizeof(buffer)) > 0)
        ;
    armed->look_due = armed_now(armed) + LOOK_DELAY;
    armed_wake_up(armed);
}

// Watches the folders. The same folder under the same name is watched once, however often the
// function is called.
static int watch_places(struct armed *armed)
{
    int r = 0;
    for (size_t i = 0; i < armed->options.n_places && armed->watch_fd >= 0; i++) {
        const struct armed_place *place = &armed->options.places[i];
        CLEANUP(freep) char *folder = NULL;
        const char *name;
        int place_r = split_place(place, &folder, &name);
        if (place_r == 0 && inotify_add_watch(armed->watch_fd, folder, FOLDER_EVENTS) < 0)
            place_r = -errno;
        if (place->optional && (place_r == -ENOENT || place_r == -ENOTDIR))
            place_r = 0;
        r = r == 0 ? place_r : r;
    }
    return r;
}

// -- time --

nsec_t armed_next_due(const struct armed *armed)
{
    nsec_t next = armed->ending ? NSEC_MAX : armed->look_due;
    if (armed->ending && !armed->entries.n && !armed->closings && armed->done)
        return 0;
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
    if (entry->held.due <= armed_now(armed)) {
        entry_write_held(entry);
    } else if (entry->snapshots) {
        entry_finish_snapshots(entry);
    } else if (entry->state == WAITING) {
        entry_try_session(entry);
    } else if (entry->then == THEN_LOAD && !armed->ending) {
        entry_load(entry);
    } else if (!entry_is_idle(entry)) {
        entry->due = NSEC_MAX; // due again when everything is written
    } else if (entry->then == THEN_GO || armed->ending) {
        entry->state = ALONE; // the session is gone
        log_info(armed->options.log, "%s: not armed any more", entry->title);
        memmove(&armed->entries.items[index], &armed->entries.items[index + 1],
                (armed->entries.n - index - 1) * sizeof(armed->entries.items[0]));
        armed->entries.n--;
        entry_free(entry);
    }
}

// Returns all places, for messages: an error rarely names its place.
static const char *places_text(const struct armed *armed, char ret[PLACES_TEXT_MAX])
{
    size_t used = 0;
    ret[0] = '\0';
    for (size_t i = 0; i < armed->options.n_places && used < PLACES_TEXT_MAX; i++)
        used += (size_t)snprintf(ret + used, PLACES_TEXT_MAX - used, "%s%s", i > 0 ? ", " : "",
                                 armed->options.places[i].path);
    return ret;
}

// Watches the places again and looks at them. A missing folder may exist by now.
static void look_again(struct armed *armed)
{
    char text[PLACES_TEXT_MAX];
    int watched = watch_places(armed), r = look(armed);
    if (watched < 0)
        armed->look_due = armed_now(armed) + LOOK_AGAIN;
    if (r == 0)
        r = watched;
    if (r < 0 && !armed->unreadable)
        log_warning(armed->options.log, "%s cannot be read: %s", places_text(armed, text),
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
    if (armed->ending && !armed->entries.n && !armed->closings && armed->done) {
        void (*done)(void *) = armed->done;
        armed->done = NULL;
        done(armed->done_userdata);
    }
}

static void timer_fired(void *userdata)
{
    armed_run_due(userdata);
}

// -- interface --

int armed_new(const struct armed_options *options, struct armed **ret, struct err *err)
{
    CLEANUP(armed_freep) struct armed *armed = calloc(1, sizeof(*armed));
    char text[PLACES_TEXT_MAX];
    if (!armed || options->n_places > ARMED_PLACES_MAX)
        return err_errno(err, armed ? -E2BIG : -ENOMEM, "armed configs");
    armed->options = *options;
    armed->look_due = NSEC_MAX;
    armed->watch_fd = options->loop ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
    int r = options->loop && armed->watch_fd < 0 ? -errno : watch_places(armed);
    if (r == 0 && options->loop)
        r = loop_add_timer(options->loop, NSEC_MAX, 0, timer_fired, armed, &armed->timer);
    if (r == 0 && options->loop)
        r = loop_add_io(options->loop, armed->watch_fd, EPOLLIN, folder_ready, armed,
                        &armed->watch_io);
    if (r == 0) {
        armed->n_recovered =
            armed_recover(options->output_folder, options->log, options->wrote, options->userdata);
        r = look(armed);
    }
    if (r < 0)
        return err_errno(err, r, "%s", places_text(armed, text));
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
    armed_closing_end(armed);
    loop_remove_io(armed->watch_io);
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
    *ret = (struct armed_counts){
        .configs = armed->entries.n, .files = armed->n_files, .recovered = armed->n_recovered};
    for (const struct armed_closing *closing = armed->closings; closing;
         closing = armed_closing_next(closing))
        ret->closing++;
    for (size_t i = 0; i < armed->entries.n; i++) {
        ret->live += armed->entries.items[i]->state == LIVE;
        ret->left_alone += armed->entries.items[i]->state == ALONE;
    }
}
