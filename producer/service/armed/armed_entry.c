// SPDX-License-Identifier: Apache-2.0
//
// A temporary lack of memory or descriptors must not remove a config. A config counts as removed
// only if its folder or file does not exist, and as wrong only if the file can be read.
//
// The service reports the end of a session during a call, perhaps during a call of this module.
// Therefore the handler only sets the entry's due time, and makes no session.
#include "producer/service/armed/armed_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/service/armed/armed_closing.h"
#include "producer/service/armed/armed_recover.h"
#include "producer/service/armed/armed_snapshot.h"
#include "producer/service/config/config_check.h"
#include "producer/trace/trace_repair.h"

#define HELD_DELAY_MAX (60 * NSEC_PER_SEC)

static time_t real_now(const struct armed *armed)
{
    return (time_t)(clock_read(armed->options.clock, CLOCK_REALTIME) / NSEC_PER_SEC);
}

// Logs a failure once. The text may end with lines that show the place of an error in a config.
// Therefore consequence and hint go into its first line.
static void complain(struct entry *entry, const struct err *err, const char *consequence)
{
    if (entry->complaint && str_eq(entry->complaint, err->text))
        return;
    free(entry->complaint);
    entry->complaint = strdup(err->text);
    int first = (int)strcspn(err->text, "\n");
    log_lines(entry->armed->options.log, LOG_LEVEL_ERROR, "%s: %s%.*s%s%s%s%s", entry->title,
              consequence, first, err->text, err->hint[0] ? " (" : "", err->hint,
              err->hint[0] ? ")" : "", err->text + first);
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

// Prunes the session's own files, and the snapshots of each trigger unless a snapshot is being
// written.
static void prune(const struct entry *entry)
{
    const Pb__TraceConfig__TriggerConfig *triggers = entry->config.trace->trigger_config;
    struct armed_folder folder = folder_of(entry);
    armed_folder_prune(&folder, entry->armed->options.log);
    for (size_t i = 0; triggers && !entry->snapshots && i < triggers->n_triggers; i++) {
        const char *name = triggers->triggers[i]->name;
        CLEANUP(freep) char *stem = armed_snapshot_stem(entry->output_stem, name ? name : "");
        folder.stem = stem;
        if (stem)
            armed_folder_prune(&folder, entry->armed->options.log);
    }
}

// -- waiting --

static void wait_until(struct entry *entry, nsec_t due)
{
    entry->state = WAITING;
    entry->due = due;
    armed_wake_up(entry->armed);
}

static nsec_t take_delay(struct entry *entry)
{
    nsec_t delay = entry->delay;
    entry->delay = delay * 2 < ARMED_DELAY_MAX ? delay * 2 : ARMED_DELAY_MAX;
    return delay;
}

static void wait_longer(struct entry *entry)
{
    wait_until(entry, armed_now(entry->armed) + take_delay(entry));
}

// -- a session's life --

static void publish(struct entry *entry)
{
    struct armed_folder folder = folder_of(entry);
    struct err err = {0};
    if (armed_file_publish(&entry->file, &folder, entry->recorded_since, &err) < 0)
        complain(entry, &err, "");
}

// Returns the number of lost events of a session.
static uint64_t events_lost(const struct entry *entry, uint64_t session_id)
{
    Pb__TracingServiceState__SessionDetails *details =
        service_get_details(entry->armed->options.service, session_id);
    uint64_t lost = !details                   ? 0
                    : details->events_lost > 0 ? details->events_lost
                                               : details->packets_discarded;
    if (details)
        protobuf_c_message_free_unpacked(&details->base, NULL);
    return lost;
}

// Completes the file of a session. Returns false if the recording is not in a file with a name.
static bool finish_file(struct entry *entry, struct armed_file *file, time_t since,
                        uint64_t session_id)
{
    struct armed_folder folder = folder_of(entry);
    struct err err = {0};
    if (armed_file_is_empty(file)) {
        armed_file_close(file);
        prune(entry);
        return true;
    }
    if (armed_file_publish(file, &folder, since, &err) < 0) {
        complain(entry, &err, "");
        return false;
    }
    if (service_session_is_strangers(entry->armed->options.service, session_id))
        armed_file_mark(file);
    armed_closing_begin(entry, &folder, file, events_lost(entry, session_id));
    return true;
}

// -- recordings that cannot be written yet --

// Keeps the stopped session with its recorded data. An older held recording is dropped, because
// memory is limited and the newest data are the most valuable.
static void hold(struct entry *entry)
{
    struct service *service = entry->armed->options.service;
    struct held *held = &entry->held;
    if (held->session_id) {
        log_error(entry->armed->options.log,
                  "%s: an older recording is lost: a newer one needs its place", entry->title);
        struct trace_repair repair;
        service_give_up(service, held->session_id);
        trace_repair(held->file.fd, 0, &repair); // appends the mark
        finish_file(entry, &held->file, held->since, held->session_id);
        armed_file_close(&held->second);
    }
    service_free_name(service, entry->session_id);
    *held = (struct held){
        .session_id = entry->session_id,
        .file = entry->file,
        .second = entry->second,
        .since = entry->recorded_since,
        .due = NSEC_MAX,
        .delay = ARMED_DELAY_MIN,
    };
    entry->session_id = 0;
    entry->no_room = false;
    entry->file = entry->second = ARMED_FILE_NONE;
}

static void try_held_later(struct entry *entry)
{
    struct held *held = &entry->held;
    armed_file_close(&held->file);
    held->due = armed_now(entry->armed) + held->delay;
    held->delay = held->delay * 2 < HELD_DELAY_MAX ? held->delay * 2 : HELD_DELAY_MAX;
    armed_wake_up(entry->armed);
}

static int write_held(struct entry *entry, struct err *err)
{
    struct held *held = &entry->held;
    struct armed_folder folder = folder_of(entry);
    int r = armed_file_open(&folder, held->since, &held->file, err);
    if (r == 0)
        r = armed_file_publish(&held->file, &folder, held->since, err);
    if (r < 0)
        return r;
    int fd = fcntl(held->file.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return err_errno(err, -errno, "%s", folder.path);
    return service_write_late(entry->armed->options.service, held->session_id, fd, err);
}

void entry_write_held(struct entry *entry)
{
    struct err err = {0};
    entry->held.due = NSEC_MAX;
    if (write_held(entry, &err) < 0) {
        complain(entry, &err, "the recording stays in memory, and is written later: ");
        try_held_later(entry);
    }
}

static void held_ended(struct entry *entry, int result, const char *text)
{
    struct held *held = &entry->held;
    if (result < 0) {
        struct err err = {0};
        err_set(&err, result, "%s", text);
        complain(entry, &err, "the recording stays in memory, and is written later: ");
    }
    if (result < 0 || !finish_file(entry, &held->file, held->since, held->session_id)) {
        try_held_later(entry);
        return;
    }
    service_destroy(entry->armed->options.service, held->session_id);
    armed_file_close(&held->second);
    held->session_id = 0;
    if (entry->state == ENDING && entry->due == NSEC_MAX && !entry->session_id)
        entry->due = armed_now(entry->armed);
    armed_wake_up(entry->armed);
}

bool entry_is_idle(const struct entry *entry)
{
    return !entry->held.session_id && !entry->snapshots;
}

// Continues without the session.
static void go_on(struct entry *entry, bool failed)
{
    struct armed *armed = entry->armed;
    bool early = armed_now(armed) - entry->live_since < ARMED_EARLY;
    entry->session_id = 0;
    entry->no_room = false;
    if (entry->state == ENDING || armed->ending) {
        entry->state = ENDING;
        entry->due = armed_now(armed);
        armed_wake_up(armed);
    } else if (early || failed) {
        wait_longer(entry);
    } else {
        entry->delay = ARMED_DELAY_MIN;
        wait_until(entry, armed_now(armed));
    }
}

static void session_ended(struct entry *entry, int result, const char *text)
{
    struct service *service = entry->armed->options.service;
    bool had_file = entry->file.fd >= 0;
    if (result < 0) {
        struct err err = {0};
        err_set(&err, result, "%s", text);
        complain(entry, &err, "");
    }
    bool is_safe = had_file ? finish_file(entry, &entry->file, entry->recorded_since,
                                          entry->session_id)
                            : result != 0; // SESSION_E_NO_TRACE, or an empty recording
    armed_file_close(&entry->second);
    if (is_safe) {
        service_destroy(service, entry->session_id);
    } else {
        armed_file_close(&entry->file);
        hold(entry);
        entry->held.due = armed_now(entry->armed);
    }
    go_on(entry, result < 0);
}

// -- room --

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

// Finds the oldest file of the config, including the snapshots of each trigger.
static bool find_oldest(const struct entry *entry, struct armed_oldest *oldest)
{
    const Pb__TraceConfig__TriggerConfig *triggers =
        entry->config.trace ? entry->config.trace->trigger_config : NULL;
    struct armed_folder folder = folder_of(entry);
    bool found = armed_folder_find_oldest(&folder, oldest);
    for (size_t i = 0; triggers && i < triggers->n_triggers; i++) {
        const char *name = triggers->triggers[i]->name;
        CLEANUP(freep) char *stem = armed_snapshot_stem(entry->output_stem, name ? name : "");
        folder.stem = stem;
        found |= stem && armed_folder_find_oldest(&folder, oldest);
    }
    return found;
}

// Removes the oldest trace of all configs below the output folder, if it is on the file system of
// the entry's folder.
static bool make_room(void *userdata, uint64_t session_id, int why)
{
    const struct entry *entry = userdata;
    const struct armed *armed = entry->armed;
    struct armed_oldest oldest = {0};
    const char *folder_path = NULL;
    struct stat ours, theirs;
    (void)session_id;
    if ((why != -ENOSPC && why != -EDQUOT) || stat(entry->output_folder, &ours) < 0)
        return false;
    for (size_t i = 0; i < armed->entries.n; i++) {
        const struct entry *other = armed->entries.items[i];
        struct armed_folder folder = folder_of(other);
        if (folder.path && folder.stem && is_below(folder.path, armed->options.output_folder) &&
            stat(folder.path, &theirs) == 0 && theirs.st_dev == ours.st_dev &&
            find_oldest(other, &oldest))
            folder_path = folder.path;
    }
    CLEANUP(freep) char *path = NULL;
    if (!folder_path || asprintf(&path, "%s/%s", folder_path, oldest.name) < 0) {
        path = NULL;
        return false;
    }
    if (unlink(path) < 0)
        return false;
    log_warning(armed->options.log, "%s: removed %s, the oldest trace, to make room", entry->title,
                path);
    return true;
}

static int next_file(void *userdata, uint64_t session_id, int *ret_fd)
{
    struct entry *entry = userdata;
    struct armed_folder folder = folder_of(entry);
    struct armed_file *second =
        session_id == entry->held.session_id ? &entry->held.second : &entry->second;
    armed_file_close(second);
    int r = armed_file_open(&folder, real_now(entry->armed), second, NULL);
    if (r < 0)
        return r;
    *ret_fd = fcntl(second->fd, F_DUPFD_CLOEXEC, 3);
    return *ret_fd < 0 ? -errno : 0;
}

static void say_no_room(struct entry *entry, uint64_t session_id, const struct armed_file *file,
                        const char *why)
{
    struct armed *armed = entry->armed;
    uint64_t need = service_unwritten_bytes(armed->options.service, session_id);
    log_error(armed->options.log,
              "%s: %s%s%s: %s: %" PRIu64
              " bytes more are to be written; they stay in memory until there is room (make room "
              "there, or choose another --output-dir)",
              entry->title, file->path ? file->path : entry->output_folder,
              file->path && file->is_part ? ARMED_PART_SUFFIX : "", file->path ? "" : "/", why,
              need);
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

static void close_snapshot(struct entry *entry, struct armed_snapshot *snapshot)
{
    struct armed_folder folder = folder_of(entry);
    folder.stem = snapshot->stem;
    if (!armed_file_is_empty(&snapshot->file))
        armed_closing_begin(entry, &folder, &snapshot->file,
                            events_lost(entry, snapshot->session_id));
}

void entry_finish_snapshots(struct entry *entry)
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
            close_snapshot(entry, snapshot);
        *at = snapshot->next;
        armed_snapshot_free(snapshot);
    }
}

// Notes that a snapshot waits for room. An older snapshot that waits for room is dropped.
static void snapshot_waits(struct entry *entry, struct armed_snapshot *snapshot, const char *why)
{
    for (struct armed_snapshot *other = entry->snapshots; other; other = other->next) {
        if (other == snapshot || !other->waits || other->written)
            continue;
        log_error(entry->armed->options.log,
                  "%s: an older snapshot is lost: there is no room for it", entry->title);
        struct trace_repair repair;
        service_give_up(entry->armed->options.service, other->session_id);
        trace_repair(other->file.fd, 0, &repair); // appends the mark
        armed_snapshot_written(other, 0, "");
        armed_wake_up(entry->armed);
    }
    snapshot->waits = true;
    say_no_room(entry, snapshot->session_id, &snapshot->file, why);
}

static void notify_snapshot(struct entry *entry, struct armed_snapshot *snapshot,
                            enum service_event event, int result, const char *text)
{
    if (event == SERVICE_EVENT_NO_ROOM)
        snapshot_waits(entry, snapshot, text);
    if (event != SERVICE_EVENT_ENDED)
        return;
    armed_snapshot_written(snapshot, result, text);
    armed_wake_up(entry->armed);
}

static void replace_file(struct entry *entry, struct armed_file *file, struct armed_file *second)
{
    struct armed_folder folder = folder_of(entry);
    int r = armed_file_replace(file, second, &folder);
    if (r < 0)
        log_error(entry->armed->options.log, "%s: %s" ARMED_PART_SUFFIX ": %s", entry->title,
                  file->path ? file->path : folder.path, strerror(-r));
    armed_file_close(second);
}

static void notify_held(struct entry *entry, enum service_event event, int result, const char *text)
{
    if (event == SERVICE_EVENT_ENDED)
        held_ended(entry, result, text);
    else if (event == SERVICE_EVENT_FILE_REPLACED)
        replace_file(entry, &entry->held.file, &entry->held.second);
    else if (event == SERVICE_EVENT_FILE_KEPT)
        armed_file_close(&entry->held.second);
}

static void no_room(struct entry *entry, const char *why)
{
    struct service *service = entry->armed->options.service;
    say_no_room(entry, entry->session_id, &entry->file, why);
    entry->no_room = true;
    if (service_session_state(service, entry->session_id) != SESSION_STOPPING)
        return;
    hold(entry);
    go_on(entry, false);
}

static void file_is_written(struct entry *entry)
{
    const Pb__TraceConfig__TriggerConfig *triggers = entry->config.trace->trigger_config;
    if (entry->no_room)
        log_info(entry->armed->options.log, "%s: there is room again", entry->title);
    else if (triggers &&
             triggers->trigger_mode == PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__STOP_TRACING)
        entry->recorded_since = real_now(entry->armed); // time of the trigger
    entry->no_room = false;
    publish(entry);
}

static void notify_session(struct entry *entry, enum service_event event, int result,
                           const char *text, const struct service_trigger_hit *trigger)
{
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
    case SERVICE_EVENT_WRITING:
        file_is_written(entry);
        break;
    case SERVICE_EVENT_NO_ROOM:
        no_room(entry, text);
        break;
    case SERVICE_EVENT_FILE_REPLACED:
        replace_file(entry, &entry->file, &entry->second);
        break;
    case SERVICE_EVENT_FILE_KEPT:
        armed_file_close(&entry->second);
        break;
    case SERVICE_EVENT_ALL_STARTED:
        break;
    }
}

static void notify(void *userdata, uint64_t session_id, enum service_event event, int result,
                   const char *text, const struct service_trigger_hit *trigger)
{
    struct entry *entry = userdata;
    struct armed_snapshot *snapshot = find_snapshot(entry, session_id);
    if (snapshot)
        notify_snapshot(entry, snapshot, event, result, text);
    else if (session_id == entry->held.session_id)
        notify_held(entry, event, result, text);
    else if (session_id == entry->session_id && (entry->state == LIVE || entry->state == ENDING))
        notify_session(entry, event, result, text, trigger);
}

// Opens the file for the next session. If no file can be made now, a recording waits in memory for
// a file.
static int open_file(struct entry *entry, struct err *err)
{
    struct armed_folder folder = folder_of(entry);
    struct err why = {0};
    int r = armed_file_open(&folder, entry->recorded_since, &entry->file, &why);
    if (r == 0)
        return 0;
    if (entry->config.trace->write_into_file || armed_may_pass(r)) {
        *err = why;
        return r;
    }
    complain(entry, &why, "recordings stay in memory for now: ");
    return 0;
}

static int make_session(struct entry *entry, struct err *err)
{
    struct armed *armed = entry->armed;
    entry->recorded_since = real_now(armed);
    int r = open_file(entry, err);
    if (r < 0)
        return r;
    bool has_file = entry->file.fd >= 0;
    struct service_request request = {
        .config = &entry->config,
        .output_fd = has_file ? fcntl(entry->file.fd, F_DUPFD_CLOEXEC, 3) : -1,
        .start = true,
        .durable = true,
    };
    if (has_file && request.output_fd < 0)
        return err_errno(err, -errno, "%s", entry->output_folder);
    entry->state = LIVE;
    entry->live_since = armed_now(armed);
    r = service_enable(armed->options.service, &entry->consumer, &request, &entry->session_id, err);
    return entry->state == LIVE ? r : 0; // a failure may have been reported as an end already
}

void entry_try_session(struct entry *entry)
{
    struct err err = {0};
    int r = make_session(entry, &err);
    if (r < 0) {
        armed_file_close(&entry->file);
        complain(entry, &err, "not armed yet, mmtrace tries again later: ");
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

// Takes the folder and the beginning of the file names from output_path.
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
    if (asprintf(&path, "%s/%s", entry->folder, entry->name) < 0) {
        path = NULL;
        return err_errno(err, -ENOMEM, "config");
    }
    struct log log = {.max_level = LOG_LEVEL_WARNING, .write = log_for_entry, .userdata = entry};
    struct config_check_env env = {
        .log = &log,
        .source_names = o->source_names,
        .memory_bytes = o->memory_bytes,
        .runs = RUNS_ARMED,
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

static void load_later(struct entry *entry)
{
    entry->state = ENDING;
    entry->then = THEN_LOAD;
    entry->session_id = 0;
    entry->due = armed_now(entry->armed) + take_delay(entry);
    armed_wake_up(entry->armed);
}

void entry_load(struct entry *entry)
{
    struct err err = {0};
    entry->told = false;
    int r = load(entry, &err);
    if (armed_may_pass(r)) {
        complain(entry, &err, "not armed yet, mmtrace tries again later: ");
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
    entry->armed->n_recovered +=
        armed_recover(folder.path, entry->armed->options.log, entry->armed->options.wrote,
                      entry->armed->options.userdata);
    prune(entry);
    wait_until(entry, armed_now(entry->armed));
}

struct entry *entry_free(struct entry *entry)
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
    if (entry->held.session_id)
        service_give_up(entry->armed->options.service, entry->held.session_id);
    armed_file_close(&entry->held.file);
    armed_file_close(&entry->held.second);
    armed_file_close(&entry->second);
    armed_file_close(&entry->file);
    config_done(&entry->config);
    free(entry->complaint);
    free(entry->output_folder);
    free(entry->output_stem);
    free(entry->title);
    free(entry->folder);
    free(entry->name);
    free(entry);
    return NULL;
}

struct entry *entry_add(struct armed *armed, const char *folder, const char *name)
{
    struct entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;
    entry->armed = armed;
    entry->file = entry->second = entry->held.file = entry->held.second = ARMED_FILE_NONE;
    entry->held.due = NSEC_MAX;
    entry->state = ALONE;
    entry->delay = ARMED_DELAY_MIN;
    entry->name = strdup(name);
    entry->folder = strdup(folder);
    if (asprintf(&entry->title, "armed/%s", name) < 0)
        entry->title = NULL;
    if (!entry->name || !entry->folder || !entry->title ||
        entry_vec_push(&armed->entries, entry) < 0)
        return entry_free(entry);
    entry->consumer = (struct service_consumer){
        .uid = geteuid(),
        .payer = geteuid(),
        .pid = getpid(),
        .name = entry->title,
        .notify = notify,
        .make_room = make_room,
        .next_file = next_file,
        .userdata = entry,
    };
    return entry;
}

void entry_move(struct entry *entry, const char *folder)
{
    char *copy = strdup(folder);
    if (!copy)
        return;
    free(entry->folder);
    entry->folder = copy;
}

void entry_end(struct entry *entry, int then)
{
    bool live = entry->state == LIVE;
    bool ending = entry->state == ENDING && entry->session_id;
    entry->then = then;
    entry->state = ENDING;
    if (ending)
        return;
    if (!live)
        entry->session_id = 0;
    entry->due = live ? NSEC_MAX : armed_now(entry->armed);
    if (live && service_disable(entry->armed->options.service, entry->session_id, NULL) < 0)
        entry->due = armed_now(entry->armed);
    armed_wake_up(entry->armed);
}

bool entry_has_changed(const struct entry *entry, const struct stat *st)
{
    const struct stamp *stamp = &entry->stamp;
    return stamp->dev != st->st_dev || stamp->ino != st->st_ino || stamp->size != st->st_size ||
           nsec_from_timespec(&stamp->changed) != nsec_from_timespec(&st->st_mtim);
}

// Returns the next due time. While snapshots are being written, only the work for snapshots and for
// the held recording is due.
nsec_t entry_due(const struct entry *entry)
{
    for (struct armed_snapshot *snapshot = entry->snapshots; snapshot; snapshot = snapshot->next)
        if (snapshot->written)
            return 0;
    nsec_t held = entry->held.due;
    if (entry->snapshots)
        return held;
    nsec_t due = entry->state == WAITING || entry->state == ENDING ? entry->due : NSEC_MAX;
    return due < held ? due : held;
}
