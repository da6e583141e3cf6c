// SPDX-License-Identifier: Apache-2.0
//
// A process that is short of memory or descriptors for a while must not lose a config by it: only a
// folder or file that is not there is gone, and only one that can be read is wrong.
//
// The service tells of an end in the middle of a call, perhaps one of ours; nothing is made then,
// only the entry's due time is set.
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
#include "producer/service/armed/armed_snapshot.h"
#include "producer/service/config/config_check.h"

static time_t real_now(const struct armed *armed)
{
    return (time_t)(clock_read(armed->options.clock, CLOCK_REALTIME) / NSEC_PER_SEC);
}

// The text may end with lines that show where a config is wrong: consequence and hint stand in its
// first line.
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

// The session's own files, and, unless one is being written, the snapshots of each trigger.
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

// Of the session whose trace was written.
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

static void count_file(struct entry *entry, const struct armed_file *file, uint64_t session_id)
{
    const struct log *log = entry->armed->options.log;
    if (!file->path || armed_file_is_empty(file))
        return;
    entry->armed->n_files++;
    uint64_t lost = events_lost(entry, session_id);
    if (lost > 0)
        log_warning(log,
                    "%s: wrote %s without %" PRIu64
                    " events that the buffers had no room for (raise size_kb of the config)",
                    entry->title, file->path, lost);
    else
        log_info(log, "%s: wrote %s", entry->title, file->path);
    if (entry->armed->options.wrote)
        entry->armed->options.wrote(entry->armed->options.userdata, file->path);
}

static void finish_file(struct entry *entry)
{
    if (!armed_file_is_empty(&entry->file))
        publish(entry);
    count_file(entry, &entry->file, entry->session_id);
    armed_file_close(&entry->file);
    prune(entry);
}

static void session_ended(struct entry *entry, int result, const char *text)
{
    struct armed *armed = entry->armed;
    bool early = armed_now(armed) - entry->live_since < ARMED_EARLY;
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
        entry->due = armed_now(armed);
        armed_wake_up(armed);
    } else if (early || result < 0) {
        wait_longer(entry);
    } else {
        entry->delay = ARMED_DELAY_MIN;
        wait_until(entry, armed_now(armed));
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
            count_file(entry, &snapshot->file, snapshot->session_id);
        *at = snapshot->next;
        armed_snapshot_free(snapshot);
        if (!entry->snapshots)
            prune(entry);
    }
}

static void notify(void *userdata, uint64_t session_id, enum service_event event, int result,
                   const char *text, const struct service_trigger_hit *trigger)
{
    struct entry *entry = userdata;
    struct armed_snapshot *snapshot = find_snapshot(entry, session_id);
    if (snapshot && event == SERVICE_EVENT_ENDED) {
        armed_snapshot_written(snapshot, result, text);
        armed_wake_up(entry->armed);
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
    entry->live_since = armed_now(armed);
    r = service_enable(armed->options.service, &entry->consumer, &request, &entry->session_id, err);
    return entry->state == LIVE ? r : 0; // a failure may have been told as an end already
}

void entry_try_session(struct entry *entry)
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
    if (asprintf(&path, "%s/%s", entry->folder, entry->name) < 0) {
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
    entry->file = ARMED_FILE_NONE;
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
        .pid = getpid(),
        .name = entry->title,
        .notify = notify,
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

// While snapshots are being written everything else of the entry waits.
nsec_t entry_due(const struct entry *entry)
{
    for (struct armed_snapshot *snapshot = entry->snapshots; snapshot; snapshot = snapshot->next)
        if (snapshot->written)
            return 0;
    if (entry->snapshots)
        return NSEC_MAX;
    return entry->state == WAITING || entry->state == ENDING ? entry->due : NSEC_MAX;
}
