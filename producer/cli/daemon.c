// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace daemon`: the service with all its clients, in one loop of one thread.
//
// Start: take the lock, so that no other daemon works in the same folders; undo changes that a dead
// daemon left; make the service; arm the configs; start the watch that may fire triggers. The end
// goes in reverse order. Without memory pressure, clients and changed configs, only the service
// manager's watchdog, if configured, wakes the process.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/daemon_options.h"
#include "producer/cli/recording.h"
#include "producer/cli/verdict_queue.h"
#include "producer/ground/self_guard.h"
#include "producer/heap/heap_abi.h"
#include "producer/service/armed/armed.h"
#include "producer/service/config/config_check.h"
#include "producer/service/ipc/endpoint.h"
#include "producer/service/rights.h"
#include "producer/service/roots.h"
#include "producer/service/service.h"
#include "producer/service/service_manager.h"
#include "producer/service/watchdog.h"
#include "producer/sources/ftrace/tracefs.h"
#include "producer/sources/heap/heap_host.h"

#define RUN_FOLDER_MODE   0711 // clients reach the sockets in it by name, but cannot list it
#define STATE_FOLDER_MODE 0700
#define NAMES_MAX         256
#define LOCK_TRIES        10
#define LOCK_PERIOD_US    50000
#define END_PERIOD        (20 * NSEC_PER_MSEC)
#define END_TIMEOUT       (15 * NSEC_PER_SEC)      // the service manager waits for 20 s
#define READ_PATIENCE     (3 * NSEC_PER_SEC)       // wait for a client that does not read
#define PRODUCER_NAME     "perfetto.traced_probes" // producer of this trigger on Android

struct daemon {
    struct daemon_options options;
    struct log log;
    struct recording here;
    int lock_fd;
    struct loop_timer *watchdog, *end; // `watchdog`: for the service manager
    struct watchdog *loop_watchdog;
    nsec_t watchdog_period;
    char *heap_socket; // owned
    struct disk *disk;
    struct service *service;
    struct armed *armed;
    struct verdict_queue *verdicts;
    struct memory_watch *watch;
    struct ipc_endpoint *endpoint;
    const char *source_names[NAMES_MAX];
    bool ending, armed_ended;
    nsec_t deadline; // of the daemon's end
};

// If the log goes to the journal, each line begins with the journal's level mark.
static void write_log(void *userdata, enum log_level level, const char *line)
{
    static const char *const marks[] = {"<3>", "<4>", "<6>", "<7>"};
    const struct daemon *daemon = userdata;
    if (!daemon->options.quiet || level <= LOG_LEVEL_WARNING)
        fprintf(stderr, "%s" CLI_PROGRAM ": %s\n", getenv("JOURNAL_STREAM") ? marks[level] : "",
                line);
}

// -- one daemon per folder --

// Makes the folder. An existing folder loses the rights beyond `mode`. A folder of another user is
// refused, because this user could replace our files.
static int make_folder(const char *path, mode_t mode, struct err *err)
{
    struct stat st;
    int r = folder_make(path, mode, err);
    if (r < 0)
        return r;
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (st.st_uid == 0 && geteuid() != 0)
        return 0;
    if (st.st_uid != geteuid()) {
        err_set(err, -EPERM, "%s: the folder belongs to user %u", path, (unsigned)st.st_uid);
        return err_hint(err, -EPERM, "choose another folder");
    }
    if (st.st_mode & S_ISVTX) {
        err_set(err, -EPERM, "%s: the folder is for files of all users", path);
        return err_hint(err, -EPERM, "choose another folder");
    }
    if ((st.st_mode & 07777) & ~mode && fchmod(fd, st.st_mode & mode) < 0)
        return err_errno(err, -errno, "%s", path);
    return 0;
}

static int take_lock(struct daemon *daemon, struct err *err)
{
    CLEANUP(freep) char *path = NULL;
    int r = make_folder(daemon->options.run_folder, RUN_FOLDER_MODE, err);
    if (r == 0)
        r = make_folder(daemon->options.state_folder, STATE_FOLDER_MODE, err);
    if (r < 0)
        return r;
    if (asprintf(&path, "%s/daemon.lock", daemon->options.run_folder) < 0) {
        path = NULL;
        return err_errno(err, -ENOMEM, "daemon.lock");
    }
    daemon->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (daemon->lock_fd < 0 || fchmod(daemon->lock_fd, 0600) < 0)
        return err_errno(err, -errno, "%s", path);
    // A killed daemon holds its lock until its last thread ends.
    for (int tries = 0; flock(daemon->lock_fd, LOCK_EX | LOCK_NB) < 0; tries++) {
        if (errno != EWOULDBLOCK || tries == LOCK_TRIES)
            break;
        usleep(LOCK_PERIOD_US);
    }
    if (flock(daemon->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return err_errno(err, -errno, "%s", path);
    err_set(err, -EBUSY, "a daemon runs already");
    return err_hint(err, -EBUSY, "%s is locked", path);
}

// -- the end --

// Checks periodically whether everything is written, and whether clients have read recordings that
// exist only in this process.
static void end_goes_on(void *userdata)
{
    struct daemon *daemon = userdata;
    nsec_t due = loop_get_call(daemon->here.loop)->due;
    struct armed_counts counts = {0};
    if (daemon->armed)
        armed_get_counts(daemon->armed, &counts);
    bool busy = service_disable_all(daemon->service) > 0 || counts.closing > 0;
    bool writing = busy || (daemon->armed && !daemon->armed_ended);
    // A wait for disk space is shorter than the other waits.
    bool late =
        due >= daemon->deadline || (!busy && due >= daemon->deadline - END_TIMEOUT + READ_PATIENCE);
    bool reading = service_count_unread(daemon->service, READ_PATIENCE) > 0;
    if (writing && late)
        log_warning(&daemon->log,
                    "sessions did not end in time, their unwritten data are lost; the next "
                    "start of the daemon completes their files");
    if ((!writing && !reading) || late) {
        size_t n_unread = service_count_unread(daemon->service, NSEC_MAX);
        if (n_unread > 0)
            log_warning(&daemon->log, "recordings that were not read in time: %zu, they are lost",
                        n_unread);
        loop_quit(daemon->here.loop);
    }
}

static void armed_ended(void *userdata)
{
    struct daemon *daemon = userdata;
    daemon->armed_ended = true;
}

static void begin_end(struct daemon *daemon)
{
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    if (daemon->ending ||
        loop_add_timer(daemon->here.loop, now, END_PERIOD, end_goes_on, daemon, &daemon->end) < 0) {
        loop_quit(daemon->here.loop);
        return;
    }
    daemon->ending = true;
    daemon->deadline = now + END_TIMEOUT;
    service_manager_tell("STOPPING=1");
    daemon->watch = memory_watch_free(daemon->watch);
    if (daemon->armed)
        armed_end(daemon->armed, armed_ended, daemon);
}

// -- events --

static void signal_ready(void *userdata)
{
    struct daemon *daemon = userdata;
    for (int number; (number = signals_take(&daemon->here.signals));) {
        if (number == SIGUSR1)
            service_dump_all(daemon->service);
        else if (number != SIGHUP)
            begin_end(daemon);
        else if (daemon->armed && !daemon->ending)
            armed_reload(daemon->armed);
    }
}

static void watchdog_due(void *userdata)
{
    (void)userdata;
    service_manager_tell("WATCHDOG=1");
}

static void memory_is_short(void *userdata, const char *trigger, const struct kmem_watch_hit *hit)
{
    struct daemon *daemon = userdata;
    nsec_t woken = nsec_now(CLOCK_BOOTTIME);
    uint32_t n =
        service_activate_trigger(daemon->service, trigger, PRODUCER_NAME, geteuid(), geteuid())
            .acted;
    nsec_t acted = nsec_now(CLOCK_BOOTTIME);
    log_info(&daemon->log, "%s: %s%s; noticed after %lld us, %u session%s acted after %lld us",
             trigger, hit->what, hit->detail, (long long)((woken - hit->time) / NSEC_PER_USEC), n,
             n == 1 ? "" : "s", (long long)((acted - hit->time) / NSEC_PER_USEC));
}

// -- the start --

static int make_loop(struct daemon *daemon, struct err *err)
{
    static const int ends[] = {SIGINT, SIGTERM, 0}, others[] = {SIGHUP, SIGUSR1, 0};
    int r = signals_watch(&daemon->here.signals, ends, others, err);
    return r < 0 ? r : recording_open(&daemon->here, signal_ready, daemon, err);
}

static int make_helpers(struct daemon *daemon, struct err *err)
{
    if (asprintf(&daemon->heap_socket, "%s/" HEAP_SOCKET_FILE, daemon->options.run_folder) < 0) {
        daemon->heap_socket = NULL;
        return err_errno(err, -ENOMEM, "heap profiles");
    }
    struct heap_host_options options = {.socket_name = daemon->heap_socket};
    return recording_help(&daemon->here, &options, err);
}

static int start_service(struct daemon *daemon, struct err *err)
{
    int r = disk_new(daemon->here.loop, &daemon->disk);
    if (r < 0)
        return err_errno(err, r, "thread for the disk");
    struct service_env env = {
        .session =
            {
                .loop = daemon->here.loop,
                .clock = &clock_reader_kernel,
                .log = &daemon->log,
                .roots = &daemon->here.roots,
                .classes = source_classes,
            },
        .limits = service_default_limits(),
        .disk = daemon->disk,
        .state_dir = daemon->options.state_folder,
    };
    return service_new(&env, &daemon->service, err);
}

// A daemon that ends does not wait for verdicts.
static void trace_written(void *userdata, const char *path)
{
    struct daemon *daemon = userdata;
    if (!daemon->ending)
        verdict_queue_add(daemon->verdicts, path);
}

static int start_armed(struct daemon *daemon, struct err *err)
{
    const struct daemon_options *o = &daemon->options;
    if (o->n_armed == 0)
        return 0;
    struct armed_options options = {
        .service = daemon->service,
        .disk = daemon->disk,
        .loop = daemon->here.loop,
        .clock = &clock_reader_kernel,
        .log = &daemon->log,
        .places = o->armed,
        .n_places = o->n_armed,
        .output_folder = o->output_folder,
        .max_files = o->keep_files,
        .max_bytes = o->keep_bytes,
        .source_names = daemon->source_names,
        .memory_bytes = config_machine_memory_bytes(),
        .wrote = trace_written,
        .userdata = daemon,
    };
    int r = verdict_queue_new(daemon->here.loop, &daemon->log, &daemon->verdicts);
    if (r < 0)
        return err_errno(err, r, "verdicts");
    return armed_new(&options, &daemon->armed, err);
}

// Lists the folders with finished traces. The output folder has all of them; the folders of armed
// configs add scores.
static size_t list_folders(void *userdata, struct service_trace_folder *ret, size_t n)
{
    const struct daemon *daemon = userdata;
    if (!n)
        return 0;
    ret[0] = (struct service_trace_folder){.path = daemon->options.output_folder};
    return 1 + (daemon->armed ? armed_list_folders(daemon->armed, ret + 1, n - 1) : 0);
}

static int start_endpoint(struct daemon *daemon, struct err *err)
{
    if (daemon->options.no_ipc)
        return 0;
    struct ipc_endpoint_options options = {
        .loop = daemon->here.loop,
        .log = &daemon->log,
        .service = daemon->service,
        .source_names = daemon->source_names,
        .memory_bytes = config_machine_memory_bytes(),
        .consumer_group = daemon->options.consumer_group,
        .save_folder = daemon->options.output_folder,
        .control_folder = daemon->options.run_folder,
        .no_perfetto_sockets = daemon->options.no_perfetto_sockets,
    };
    return ipc_endpoint_new(&options, &daemon->endpoint, err);
}

// Starts the watch. Without any sign that can be watched, the daemon can still record.
static void start_watch(struct daemon *daemon)
{
    const struct daemon_options *o = &daemon->options;
    struct err err = {0};
    if (!o->events[0] && !o->psi[0])
        return;
    struct memory_watch_options options = {
        .loop = daemon->here.loop,
        .log = &daemon->log,
        .roots = &daemon->here.roots,
        .events = o->events,
        .events_are_default = !o->event_list,
        .psi = o->psi,
        .psi_is_default = o->psi_is_default,
        .rest = o->rest,
        .rest_max = o->rest_max,
        .hit = memory_is_short,
        .userdata = daemon,
    };
    if (memory_watch_new(&options, &daemon->watch, &err) < 0)
        log_error(&daemon->log, "no trigger will fire by itself: %s%s%s%s", err.text,
                  err.hint[0] ? " (" : "", err.hint, err.hint[0] ? ")" : "");
}

// Tests shorten the maximum time of a round by the environment variable.
static void start_watchdog(struct daemon *daemon)
{
    const char *text = getenv("MMTRACE_WATCHDOG_MS");
    uint32_t ms = 0;
    if (text && str_parse_u32(text, &ms) < 0)
        ms = 0;
    struct watchdog_options options = {
        .loop = daemon->here.loop,
        .signal_fd = daemon->here.signals.fd,
        .lock_fd = daemon->lock_fd,
        .name = CLI_PROGRAM,
        .loop_max = (nsec_t)ms * NSEC_PER_MSEC,
        .signal_max = (nsec_t)ms * NSEC_PER_MSEC,
    };
    int r = watchdog_new(&options, &daemon->loop_watchdog);
    if (r < 0)
        log_warning(&daemon->log, "no watchdog: %s", strerror(-r));
}

static void tell_manager(struct daemon *daemon)
{
    daemon->watchdog_period = service_manager_watchdog() / 2;
    if (daemon->watchdog_period > 0)
        loop_add_timer(daemon->here.loop, nsec_now(CLOCK_BOOTTIME) + daemon->watchdog_period,
                       daemon->watchdog_period, watchdog_due, daemon, &daemon->watchdog);
    int r = service_manager_tell("READY=1");
    if (r < 0)
        log_warning(&daemon->log, "NOTIFY_SOCKET: %s", strerror(-r));
}

static int start(struct daemon *daemon, struct err *err)
{
    int r = take_lock(daemon, err);
    if (r < 0)
        return r;
    daemon->here.roots.run = daemon->options.run_folder;
    if (daemon->here.roots.tracefs)
        tracefs_sweep(daemon->here.roots.tracefs, daemon->here.roots.proc, daemon->here.roots.run,
                      &daemon->log);
    source_class_names(daemon->source_names, NAMES_MAX);
    r = make_loop(daemon, err);
    if (r == 0)
        r = make_helpers(daemon, err);
    if (r == 0) {
        rights_drop(&daemon->log);
        r = start_service(daemon, err);
    }
    if (r == 0)
        r = start_endpoint(daemon, err); // a client that has read "armed" in the log is heard
    if (r == 0)
        r = start_armed(daemon, err);
    if (r == 0)
        service_set_trace_folders(daemon->service, list_folders, daemon);
    if (r < 0)
        return r;
    start_watch(daemon);
    start_watchdog(daemon);
    self_guard_take();
    tell_manager(daemon);
    return 0;
}

static void done(struct daemon *daemon)
{
    daemon->loop_watchdog = watchdog_free(daemon->loop_watchdog);
    daemon->watch = memory_watch_free(daemon->watch);
    daemon->endpoint = ipc_endpoint_free(daemon->endpoint);
    daemon->armed = armed_free(daemon->armed);
    daemon->verdicts = verdict_queue_free(daemon->verdicts);
    daemon->service = service_free(daemon->service);
    daemon->disk = disk_free(daemon->disk);
    loop_remove_timer(daemon->watchdog);
    loop_remove_timer(daemon->end);
    recording_done(&daemon->here);
    free(daemon->heap_socket);
    close_fd(daemon->lock_fd);
    daemon_options_done(&daemon->options);
}

int cli_daemon(int argc, char **argv)
{
    struct daemon daemon = {.here = {.log = &daemon.log, .signals.fd = -1}, .lock_fd = -1};
    struct err err = {0};
    int r = daemon_options_parse(argc, argv, &daemon.options, &err);
    if (r != 0) {
        daemon_options_done(&daemon.options);
        return cli_command_wrong(&daemon_command, r, &err);
    }
    source_roots_find(&daemon.here.roots);
    if (daemon.options.event_list &&
        memory_watch_check_events(&daemon.here.roots, daemon.options.events, &err) < 0) {
        err_prefix(&err, 0, "--kmem-events");
        err_print(&err, CLI_PROGRAM " daemon");
        daemon_options_done(&daemon.options);
        return PROGRAM_USAGE;
    }
    daemon.log = (struct log){
        .max_level = LOG_LEVEL_INFO,
        .write = write_log,
        .userdata = &daemon,
    };
    r = start(&daemon, &err);
    if (r == 0 && (r = loop_run(daemon.here.loop)) < 0)
        err_errno(&err, r, "event loop");
    if (r < 0)
        err_print(&err, CLI_PROGRAM);
    done(&daemon);
    return r < 0 ? PROGRAM_FAILED : PROGRAM_DONE;
}
