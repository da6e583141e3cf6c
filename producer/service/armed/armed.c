// SPDX-License-Identifier: Apache-2.0
//
// Each config is an entry in one of a few states:
//
//     WAITING   due at some time      -> LIVE, or WAITING with a longer delay
//     LIVE      has a session         -> WAITING when that ends
//     ENDING    its session was told  -> what `then` says, when that has ended
//               to end, or its config
//               cannot be read now       (or when it is due)
//     ALONE     its config is wrong   -> WAITING when the config changes
//
// A process that is short of memory or descriptors for a while must not lose a config by it: only a
// folder or file that is not there is gone, and only one that can be read is wrong.
//
// The service tells of an end in the middle of a call, perhaps one of ours; nothing is made then,
// only the entry's due time is set. Entries are released in run_due() alone. So no caller is ever
// left with an entry or a session that is gone.
//
// A look at the folder compares what stat() says with what it said. inotify only says when to look,
// a moment later, when a config that is copied in is complete.
#include "producer/service/armed/armed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/service/armed/armed_file.h"
#include "producer/service/armed/armed_snapshot.h"
#include "producer/service/config/config_check.h"

#define LOOK_DELAY (100 * NSEC_PER_MSEC)
#define LOOK_AGAIN (60 * NSEC_PER_SEC) // where the folder cannot be read
#define FOLDER_EVENTS                                                                              \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF | IN_ONLYDIR)

struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct entry {
    struct armed *armed; // borrowed
    char *name;          // owned: "mm_events.cfg"
    char *title;         // owned: "armed/mm_events.cfg"
    struct stamp stamp;
    struct config config;
    char *output_folder, *output_stem; // owned
    struct service_consumer consumer;
    enum { WAITING, LIVE, ENDING, ALONE } state;
    enum { THEN_LOAD, THEN_GO } then; // after ENDING
    bool seen;                        // by the present look at the folder
    nsec_t due;                       // while WAITING
    nsec_t delay;                     // the next one, if it fails
    uint64_t session_id;              // 0: it has ended
    nsec_t live_since;
    time_t recorded_since;
    struct armed_file file;
    struct armed_snapshot *snapshots; // owned, being written
    char *complaint;                  // owned: the last failure, told only once
    bool told;                        // that it is armed
};

VEC_DEFINE(entry_vec, struct entry *);

struct armed {
    struct armed_options options;
    struct entry_vec entries;
    int watch_fd;
    struct loop_io *watch_io;
    struct loop_timer *timer;
    nsec_t look_due; // NSEC_MAX: no need to look
    uint64_t n_files;
    bool unreadable; // the folder, and that was said
    bool ending;
    void (*done)(void *userdata);
    void *done_userdata;
};

DEFINE_CLEANUP(armed_freep, struct armed, armed_free);

static nsec_t boot_now(const struct armed *armed)
{
    return clock_read(armed->options.clock, CLOCK_BOOTTIME);
}

static time_t real_now(const struct armed *armed)
{
    return (time_t)(clock_read(armed->options.clock, CLOCK_REALTIME) / NSEC_PER_SEC);
}

static void wake_up(struct armed *armed)
{
    if (armed->timer)
        loop_set_timer(armed->timer, armed_next_due(armed), 0);
}

// The text may end with lines that show where a config is wrong, so the consequence goes in front.
static void complain(struct entry *entry, const struct err *err, const char *consequence)
{
    if (entry->complaint && str_eq(entry->complaint, err->text))
        return;
    free(entry->complaint);
    entry->complaint = strdup(err->text);
    log_error(entry->armed->options.log, "%s: %s%s%s%s%s", entry->title, consequence, err->text,
              err->hint[0] ? " (" : "", err->hint, err->hint[0] ? ")" : "");
}

static void log_for_entry(void *userdata, enum log_level level, const char *line)
{
    const struct entry *entry = userdata;
    log_line(entry->armed->options.log, level, "%s: %s", entry->title, line);
}

static struct armed_folder folder_of(const struct entry *entry)
{
    return (struct armed_folder){
        .path = entry->output_folder,
        .stem = entry->output_stem,
        .max_files = entry->armed->options.max_files,
        .max_bytes = entry->armed->options.max_bytes,
    };
}

// -- waiting --

static void wait_until(struct entry *entry, nsec_t due)
{
    entry->state = WAITING;
    entry->due = due;
    wake_up(entry->armed);
}

static nsec_t take_delay(struct entry *entry)
{
    nsec_t delay = entry->delay;
    entry->delay = delay * 2 < ARMED_DELAY_MAX ? delay * 2 : ARMED_DELAY_MAX;
    return delay;
}

static void wait_longer(struct entry *entry)
{
    wait_until(entry, boot_now(entry->armed) + take_delay(entry));
}

// -- a session's life --

static void publish(struct entry *entry)
{
    struct armed_folder folder = folder_of(entry);
    struct err err = {0};
    if (armed_file_publish(&entry->file, &folder, entry->recorded_since, &err) < 0)
        complain(entry, &err, "");
}

static void count_file(struct entry *entry, const struct armed_file *file)
{
    if (!file->path || armed_file_is_empty(file))
        return;
    entry->armed->n_files++;
    log_info(entry->armed->options.log, "%s: wrote %s", entry->title, file->path);
}

static void finish_file(struct entry *entry)
{
    if (!armed_file_is_empty(&entry->file))
        publish(entry);
    count_file(entry, &entry->file);
    armed_file_close(&entry->file);
    struct armed_folder folder = folder_of(entry);
    armed_folder_prune(&folder, entry->armed->options.log);
}

static void session_ended(struct entry *entry, int result, const char *text)
{
    struct armed *armed = entry->armed;
    bool early = boot_now(armed) - entry->live_since < ARMED_EARLY;
    if (result < 0) {
        struct err err = {0};
        err_set(&err, result, "%s", text);
        complain(entry, &err, "");
    }
    finish_file(entry);
    service_destroy(armed->options.service, entry->session_id);
    entry->session_id = 0;
    if (entry->state == ENDING || armed->ending) {
        entry->state = ENDING;
        entry->due = boot_now(armed);
        wake_up(armed);
    } else if (early || result < 0) {
        wait_longer(entry);
    } else {
        entry->delay = ARMED_DELAY_MIN;
        wait_until(entry, boot_now(armed));
    }
}

// -- snapshots --

static void take_snapshot(struct entry *entry, const struct service_trigger_hit *trigger)
{
    struct armed *armed = entry->armed;
    struct armed_folder folder = folder_of(entry);
    struct armed_snapshot *snapshot;
    struct err err = {0};
    if (armed_snapshot_take(armed->options.service, &entry->consumer, entry->session_id, trigger,
                            &folder, real_now(armed), &snapshot, &err) < 0) {
        complain(entry, &err, "");
        return;
    }
    snapshot->next = entry->snapshots;
    entry->snapshots = snapshot;
}

static struct armed_snapshot *find_snapshot(const struct entry *entry, uint64_t session_id)
{
    struct armed_snapshot *snapshot = entry->snapshots;
    while (snapshot && snapshot->session_id != session_id)
        snapshot = snapshot->next;
    return snapshot;
}

static void finish_snapshots(struct entry *entry)
{
    struct armed_folder folder = folder_of(entry);
    for (struct armed_snapshot **at = &entry->snapshots, *snapshot; (snapshot = *at);) {
        struct err err = {0};
        if (!snapshot->written) {
            at = &snapshot->next;
            continue;
        }
        if (armed_snapshot_finish(snapshot, &folder, &err) < 0)
            complain(entry, &err, "");
        else
            count_file(entry, &snapshot->file);
        *at = snapshot->next;
        armed_snapshot_free(snapshot);
        if (!entry->snapshots)
            armed_folder_prune(&folder, entry->armed->options.log);
    }
}

static void notify(void *userdata, uint64_t session_id, enum service_event event, int result,
                   const char *text, const struct service_trigger_hit *trigger)
{
    struct entry *entry = userdata;
    struct armed_snapshot *snapshot = find_snapshot(entry, session_id);
    if (snapshot && event == SERVICE_EVENT_ENDED) {
        armed_snapshot_written(snapshot, result, text);
        wake_up(entry->armed);
        return;
    }
    if (session_id != entry->session_id || (entry->state != LIVE && entry->state != ENDING))
        return;
    switch (event) {
    case SERVICE_EVENT_STARTED:
        entry->recorded_since = real_now(entry->armed);
        if (entry->config.trace->trigger_config)
            log_info(entry->armed->options.log, "%s: recording", entry->title);
        if (entry->config.trace->write_into_file)
            publish(entry);
        break;
    case SERVICE_EVENT_ENDED:
        session_ended(entry, result, text);
        break;
    case SERVICE_EVENT_CLONE_TRIGGERED:
        take_snapshot(entry, trigger);
        break;
    }
}

static int make_session(struct entry *entry, struct err *err)
{
    struct armed *armed = entry->armed;
    struct armed_folder folder = folder_of(entry);
    entry->recorded_since = real_now(armed);
    int r = armed_file_open(&folder, entry->recorded_since, &entry->file, err);
    if (r < 0)
        return r;
    struct service_request request = {
        .config = &entry->config,
        .output_fd = fcntl(entry->file.fd, F_DUPFD_CLOEXEC, 3),
        .start = true,
    };
    if (request.output_fd < 0)
        return err_errno(err, -errno, "%s", folder.path);
    entry->state = LIVE;
    entry->live_since = boot_now(armed);
    r = service_enable(armed->options.service, &entry->consumer, &request, &entry->session_id, err);
    return entry->state == LIVE ? r : 0; // a failure may have been told as an end already
}

static void try_session(struct entry *entry)
{
    struct err err = {0};
    int r = make_session(entry, &err);
    if (r < 0) {
        armed_file_close(&entry->file);
        complain(entry, &err, "not armed yet, tried again later: ");
        wait_longer(entry);
        return;
    }
    if (entry->state != LIVE)
        return;
    free(entry->complaint);
    entry->complaint = NULL;
    log_line(entry->armed->options.log, entry->told ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "%s: armed",
             entry->title);
    entry->told = true;
}

// -- a config's life --

static int read_config(const char *path, struct stamp *stamp, struct strbuf *ret, struct err *err)
{
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "config");
    *stamp = (struct stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "not a file");
    int r = fd_read_all(fd, CONFIG_SIZE_MAX, ret);
    if (r == -EFBIG)
        return err_set(err, -E2BIG, "larger than %zu bytes, not a config", CONFIG_SIZE_MAX);
    return r < 0 ? err_errno(err, r, "config") : 0;
}

// Of output_path, what it has: a folder, and the start of the files' names.
static int choose_output(struct entry *entry)
{
    const char *path = entry->config.trace->output_path;
    const char *base = path && *path ? path : "", *slash = strrchr(base, '/');
    const char *stem = slash ? slash + 1 : base;
    int folder_size = slash ? (int)(slash - base) : 0;
    free(entry->output_folder);
    free(entry->output_stem);
    entry->output_folder = entry->output_stem = NULL;
    if (asprintf(&entry->output_folder, "%s%s%.*s",
                 *base == '/' ? "" : entry->armed->options.output_folder,
                 *base == '/' || !folder_size ? "" : "/", folder_size, base) < 0) {
        entry->output_folder = NULL;
        return -ENOMEM;
    }
    if (*stem) {
        size_t size = strlen(stem);
        if (str_ends_with(stem, ARMED_FILE_SUFFIX))
            size -= strlen(ARMED_FILE_SUFFIX);
        entry->output_stem = strndup(stem, size);
    } else {
        entry->output_stem = strndup(entry->name, strlen(entry->name) - strlen(ARMED_SUFFIX));
    }
    return entry->output_stem ? 0 : -ENOMEM;
}

static int load(struct entry *entry, struct err *err)
{
    const struct armed_options *o = &entry->armed->options;
    CLEANUP(freep) char *path = NULL;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    if (asprintf(&path, "%s/%s", o->folder, entry->name) < 0) {
        path = NULL;
        return err_errno(err, -ENOMEM, "config");
    }
    struct log log = {.max_level = LOG_LEVEL_WARNING, .write = log_for_entry, .userdata = entry};
    struct config_check_env env = {
        .log = &log,
        .source_names = o->source_names,
        .memory_bytes = o->memory_bytes,
    };
    config_done(&entry->config);
    entry->config = (struct config){0};
    int r = read_config(path, &entry->stamp, &text, err);
    if (r == 0)
        r = config_load(entry->name, text.text ? text.text : "", text.size, CONFIG_FORMAT_ANY,
                        &entry->config, err);
    if (r == 0)
        r = config_check(entry->config.trace, &env, err);
    if (r == 0 && choose_output(entry) < 0)
        r = err_errno(err, -ENOMEM, "config");
    return r;
}

static bool may_pass(int r)
{
    return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EIO || r == -EAGAIN;
}

static void load_later(struct entry *entry)
{
    entry->state = ENDING;
    entry->then = THEN_LOAD;
    entry->session_id = 0;
    entry->due = boot_now(entry->armed) + take_delay(entry);
    wake_up(entry->armed);
}

static void load_entry(struct entry *entry)
{
    struct err err = {0};
    entry->told = false;
    int r = load(entry, &err);
    if (may_pass(r)) {
        complain(entry, &err, "not armed yet, tried again later: ");
        load_later(entry);
        return;
    }
    entry->delay = ARMED_DELAY_MIN;
    if (r < 0) {
        entry->state = ALONE;
        complain(entry, &err, "left alone until it changes: ");
        return;
    }
    free(entry->complaint);
    entry->complaint = NULL;
    struct armed_folder folder = folder_of(entry);
    armed_folder_prune(&folder, entry->armed->options.log);
    wait_until(entry, boot_now(entry->armed));
}

static struct entry *entry_free(struct entry *entry)
{
    if (!entry)
        return NULL;
    if (entry->state == LIVE || entry->state == ENDING)
        service_destroy(entry->armed->options.service, entry->session_id);
    while (entry->snapshots) {
        struct armed_snapshot *next = entry->snapshots->next;
        armed_snapshot_free(entry->snapshots);
        entry->snapshots = next;
    }
    armed_file_close(&entry->file);
    config_done(&entry->config);
    free(entry->complaint);
    free(entry->output_folder);
    free(entry->output_stem);
    free(entry->title);
    free(entry->name);
    free(entry);
    return NULL;
}

static struct entry *add_entry(struct armed *armed, const char *name)
{
    struct entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;
    entry->armed = armed;
    entry->file = ARMED_FILE_NONE;
    entry->state = ALONE;
    entry->delay = ARMED_DELAY_MIN;
    entry->name = strdup(name);
    if (asprintf(&entry->title, "armed/%s", name) < 0)
        entry->title = NULL;
    if (!entry->name || !entry->title || entry_vec_push(&armed->entries, entry) < 0)
        return entry_free(entry);
    entry->consumer = (struct service_consumer){
        .uid = geteuid(),
        .pid = getpid(),
        .name = entry->title,
        .notify = notify,
        .userdata = entry,
    };
    return entry;
}

// Ends the entry's session, if it has one; run_due() goes on with `then`.
static void end_entry(struct entry *entry, int then)
{
    bool live = entry->state == LIVE;
    bool ending = entry->state == ENDING && entry->session_id;
    entry->then = then;
    entry->state = ENDING;
    if (ending)
        return;
    if (!live)
        entry->session_id = 0;
    entry->due = live ? NSEC_MAX : boot_now(entry->armed);
    if (live && service_disable(entry->armed->options.service, entry->session_id, NULL) < 0)
        entry->due = boot_now(entry->armed);
    wake_up(entry->armed);
}

// -- the folder --

static struct entry *find_entry(const struct armed *armed, const char *name)
{
    for (size_t i = 0; i < armed->entries.n; i++)
        if (str_eq(armed->entries.items[i]->name, name))
            return armed->entries.items[i];
    return NULL;
}

static bool has_changed(const struct entry *entry, const struct stat *st)
{
    const struct stamp *stamp = &entry->stamp;
    return stamp->dev != st->st_dev || stamp->ino != st->st_ino || stamp->size != st->st_size ||
           nsec_from_timespec(&stamp->changed) != nsec_from_timespec(&st->st_mtim);
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
        entry = add_entry(armed, name);
        if (!entry)
            return;
        entry->seen = true;
        load_entry(entry);
        return;
    }
    entry->seen = true;
    if (has_changed(entry, st))
        end_entry(entry, THEN_LOAD);
    else if (entry->state == ENDING && entry->then == THEN_GO)
        entry->then = THEN_LOAD; // it went and came back
}

static int look(struct armed *armed)
{
    DIR *dir = opendir(armed->options.folder);
    int r = dir ? 0 : -errno;
    armed->look_due = dir ? NSEC_MAX : boot_now(armed) + LOOK_AGAIN;
    if (may_pass(r))
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
            known->seen = may_pass(-errno);
    }
    for (size_t i = 0; i < armed->entries.n; i++)
        if (!armed->entries.items[i]->seen)
            end_entry(armed->entries.items[i], THEN_GO);
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
    armed->look_due = boot_now(armed) + LOOK_DELAY;
    wake_up(armed);
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

// While snapshots are being written everything else of the entry waits.
static nsec_t entry_due(const struct entry *entry)
{
    for (struct armed_snapshot *snapshot = entry->snapshots; snapshot; snapshot = snapshot->next)
        if (snapshot->written)
            return 0;
    if (entry->snapshots)
        return NSEC_MAX;
    return entry->state == WAITING || entry->state == ENDING ? entry->due : NSEC_MAX;
}

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
        finish_snapshots(entry);
    } else if (entry->state == WAITING) {
        try_session(entry);
    } else if (entry->then == THEN_LOAD && !armed->ending) {
        load_entry(entry);
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
        armed->look_due = boot_now(armed) + LOOK_AGAIN;
    if (r == 0)
        r = watched;
    if (r < 0 && !armed->unreadable)
        log_warning(armed->options.log, "%s cannot be read: %s", armed->options.folder,
                    strerror(-r));
    armed->unreadable = r < 0;
}

void armed_run_due(struct armed *armed)
{
    nsec_t now = boot_now(armed);
    if (!armed->ending && armed->look_due <= now)
        look_again(armed);
    for (size_t i = armed->entries.n; i-- > 0;) {
        if (entry_due(armed->entries.items[i]) <= now)
            run_entry(armed, i);
    }
    wake_up(armed);
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
            entry->due = boot_now(armed);
        if (entry->state != ALONE && entry->state != WAITING)
            continue;
        free(entry->complaint);
        entry->complaint = NULL;
        load_entry(entry);
    }
    armed_run_due(armed);
}

void armed_end(struct armed *armed, void (*done)(void *userdata), void *userdata)
{
    armed->ending = true;
    armed->done = done;
    armed->done_userdata = userdata;
    for (size_t i = 0; i < armed->entries.n; i++)
        end_entry(armed->entries.items[i], THEN_GO);
    armed_run_due(armed);
}

void armed_get_counts(const struct armed *armed, struct armed_counts *ret)
{
    *ret = (struct armed_counts){.configs = armed->entries.n, .files = armed->n_files};
    for (size_t i = 0; i < armed->entries.n; i++) {
        ret->live += armed->entries.items[i]->state == LIVE;
        ret->left_alone += armed->entries.items[i]->state == ALONE;
    }
}
