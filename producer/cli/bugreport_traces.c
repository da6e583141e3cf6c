// SPDX-License-Identifier: Apache-2.0
//
// Snapshots come through the tracing service like any clone: recording continues, and if the
// service does not answer, the report lacks only its snapshots. Each snapshot has a separate
// connection, whose end makes the service drop the copy. The snapshot is first read into a file
// without a name, because the verdict needs a file.
//
// Finished traces are files, in folders that the service names. A service of a user other than root
// or this user is not trusted: otherwise a stranger could choose the folders that root reads.
// Without a service, the daemon's usual folder is searched: after a crash the evidence is there,
// including a recording that the daemon did not finish.
//
// Android's tools look only for the name systrace.pftrace. This entry is the snapshot of this
// user's session with the highest bugreport_score, or without a snapshot the newest finished trace
// with the highest score. If there is neither, it is the snapshot of another user's session: the
// scores of others do not push out the evidence of this user.
#include "producer/cli/bugreport_traces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "producer/cli/daemon_options.h"
#include "producer/cli/readout.h"
#include "producer/cli/remote.h"
#include "producer/service/armed/armed_file.h"
#include "producer/service/ipc/socket.h"

#define SILENCE_MAX (30 * NSEC_PER_SEC)
#define QUOTED_MAX  80
#define FOLDERS_MAX 256
// Longest wait for a trace that is being completed, if the report has no other trace.
#define CLOSING_WAIT (5 * NSEC_PER_SEC)
#define CLOSING_STEP (100 * NSEC_PER_MSEC)

typedef Pb__TracingServiceState__TracingSession Session;

struct gathering {
    struct bugreport *report; // borrowed
    const struct report_options *options;
    struct reported_traces *traces;
    Pb__TracingServiceState *state;         // owned; NULL: no service
    bool state_is_trusted;                  // the folders of `state` may be read
    Session *chosen[REPORTED_SESSIONS_MAX]; // borrowed from `state`; the user's own come first
    size_t n_chosen, n_own;
    struct err no_snapshot; // why the report has no snapshot
};

void bugreport_traces_done(struct reported_traces *traces)
{
    vec_foreach(traces, trace) {
        free(trace->name);
        close_fd(trace->fd);
    }
    reported_traces_done(traces);
}

// Adds a trace. Takes over the descriptor.
static int reported_add(struct gathering *gathering, int fd, const char *about, struct err *err)
{
    struct reported_trace trace = {
        .name = strdup(bugreport_entry_name(gathering->report)),
        .fd = fd,
    };
    snprintf(trace.about, sizeof(trace.about), "%s", about);
    if (trace.name && reported_traces_push(gathering->traces, trace) == 0)
        return 0;
    free(trace.name);
    close_fd(fd);
    return err_errno(err, -ENOMEM, "bugreport");
}

// -- snapshots --

// A service may leave out the user of a session.
static bool is_own(const Session *session)
{
    return !session->has_consumer_uid || (uid_t)session->consumer_uid == geteuid();
}

static int own_by_score(const void *a, const void *b)
{
    const Session *x = *(Session *const *)a, *y = *(Session *const *)b;
    if (is_own(x) != is_own(y))
        return is_own(x) ? -1 : 1;
    if (x->bugreport_score != y->bugreport_score)
        return x->bugreport_score > y->bugreport_score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_started(const Session *session)
{
    return session->has_is_started ? session->is_started
                                   : session->state && str_eq(session->state, "STARTED");
}

static const char *session_name(const Session *session, char ret[QUOTED_MAX])
{
    const char *name = session->unique_session_name;
    return name && *name ? str_printable(ret, QUOTED_MAX, name, strlen(name)) : "-";
}

// Reads this connection's clone into `fd`. The bytes that were read before a failure stay.
static int read_clone(struct ipc_client *client, int fd, struct err *err)
{
    uint64_t bytes;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return copy < 0 ? err_errno(err, -errno, "snapshot")
                    : readout_to_file(client, copy, "snapshot", false, &bytes, err);
}

static bool is_empty(int fd)
{
    return lseek(fd, 0, SEEK_END) <= 0;
}

// Adds an entry with the contents of `fd`. The list of traces takes over `fd`.
static int add_entry(struct gathering *gathering, const char *name, int fd, const char *about,
                     const char *problem, struct err *err)
{
    struct err reason = {0};
    int r = bugreport_trace_begin(gathering->report, name, err);
    if (r < 0) {
        close_fd(fd);
        return r;
    }
    r = bugreport_trace_add_file(gathering->report, fd, &reason);
    if (r < 0 && r != -EFBIG) {
        close_fd(fd);
        return err_set(err, r, "%s", reason.text);
    }
    r = bugreport_trace_end(gathering->report, about, reason.text[0] ? reason.text : problem, err);
    return r < 0 ? (close_fd(fd), r) : reported_add(gathering, fd, about, err);
}

static int add_session(struct gathering *gathering, const Session *session, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    struct err problem = {0};
    char quoted[QUOTED_MAX], about[256];
    bool in_file = false;
    // If the session writes into a file, the service copies that file into ours.
    int fd CLEANUP(close_fdp) = bugreport_scratch_file(gathering->report);
    struct remote_clone request = {
        .session_id = session->id,
        .for_bugreport = true,
        .output_fd = fd,
    };
    int r = fd < 0 ? err_errno(&problem, fd, "temporary file") : 0;
    if (r == 0)
        r = remote_connect_consumer(&client, &problem);
    if (r == 0)
        r = remote_clone_session(client, &request, &in_file, &problem);
    if (r == 0 && !in_file)
        r = read_clone(client, fd, &problem);
    if (fd < 0 || is_empty(fd)) {
        bugreport_note(gathering->report, "session %" PRIu64 " is missing: %s", session->id,
                       r < 0 ? problem.text : "its snapshot is empty");
        err_set(&gathering->no_snapshot, r, "session %" PRIu64 ": %s", session->id,
                r < 0 ? problem.text : "its snapshot is empty");
        return 0;
    }
    snprintf(about, sizeof(about), "session %" PRIu64 "  %s, as it was recording", session->id,
             session_name(session, quoted));
    const char *name = gathering->traces->n ? session->bugreport_filename : NULL;
    return add_entry(gathering, name, steal_fd(&fd), about, r < 0 ? problem.text : NULL, err);
}

static void note_session(struct bugreport *report, const Session *session)
{
    char quoted[QUOTED_MAX], state[QUOTED_MAX] = "-";
    if (session->state)
        str_printable(state, sizeof(state), session->state, strlen(session->state));
    bugreport_note(report, "session %" PRIu64 "  %s  %s  bugreport_score %d", session->id,
                   session_name(session, quoted), state, session->bugreport_score);
}

static void choose_sessions(struct gathering *gathering)
{
    const Pb__TracingServiceState *state = gathering->state;
    qsort(state->tracing_sessions, state->n_tracing_sessions, sizeof(state->tracing_sessions[0]),
          own_by_score);
    for (size_t i = 0; i < state->n_tracing_sessions; i++) {
        Session *session = state->tracing_sessions[i];
        note_session(gathering->report, session);
        if (session->bugreport_score <= 0 || !is_started(session) ||
            gathering->n_chosen == REPORTED_SESSIONS_MAX)
            continue;
        gathering->chosen[gathering->n_chosen++] = session;
        gathering->n_own += is_own(session);
    }
    if (gathering->n_chosen == 0) {
        err_set(&gathering->no_snapshot, -ENOENT,
                state->n_tracing_sessions ? "no session that records has a bugreport_score"
                : geteuid() == 0          ? "the tracing service runs no session"
                                          : "the tracing service runs no session of this user");
        err_hint(&gathering->no_snapshot, -ENOENT, "mmtrace status lists the sessions");
        bugreport_note(gathering->report, "No snapshot: %s.", gathering->no_snapshot.text);
    }
}

// Adds the chosen sessions from `begin` to `end`.
static int add_sessions(struct gathering *gathering, size_t begin, size_t end, struct err *err)
{
    int r = 0;
    for (size_t i = begin; r == 0 && i < end; i++)
        r = add_session(gathering, gathering->chosen[i], err);
    return r;
}

static void ask_service(struct gathering *gathering)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    struct ipc_credentials peer;
    struct err *problem = &gathering->no_snapshot;
    int r = remote_connect_consumer(&client, problem);
    if (r == 0)
        r = ipc_client_query_state(client, true, REMOTE_TIMEOUT, &gathering->state, problem);
    if (r < 0)
        bugreport_note(gathering->report, "No snapshot: %s.", problem->text);
    else if (ipc_socket_credentials(ipc_client_fd(client), &peer) == 0)
        gathering->state_is_trusted = peer.uid == 0 || peer.uid == geteuid();
}

// -- finished traces --

static size_t list_folders(const struct gathering *gathering,
                           struct trace_history_folder ret[FOLDERS_MAX])
{
    const struct report_options *options = gathering->options;
    const Pb__TracingServiceState *state = gathering->state;
    size_t n = 0;
    for (size_t i = 0; i < options->n_folders; i++)
        ret[n++] = (struct trace_history_folder){.path = options->folders[i]};
    if (n > 0)
        return n;
    for (size_t i = 0; gathering->state_is_trusted && i < state->n_trace_folders; i++) {
        const Pb__TracingServiceState__TraceFolder *folder = state->trace_folders[i];
        if (n == FOLDERS_MAX || !folder->path || *folder->path != '/')
            continue;
        ret[n++] = (struct trace_history_folder){
            .path = folder->path,
            .stem =
                folder->stem && *folder->stem && !strchr(folder->stem, '/') ? folder->stem : NULL,
            .score = folder->bugreport_score,
        };
    }
    if (n == 0)
        ret[n++] = (struct trace_history_folder){.path = DAEMON_TRACES_FOLDER};
    return n;
}

// "12 s", "3.5 min", "2.0 h", "4.1 days".
static const char *age_text(nsec_t age, char ret[32])
{
    double s = age > 0 ? (double)age / (double)NSEC_PER_SEC : 0;
    if (s < 60)
        snprintf(ret, 32, "%.0f s", s);
    else if (s < 3600)
        snprintf(ret, 32, "%.1f min", s / 60);
    else if (s < 48 * 3600)
        snprintf(ret, 32, "%.1f h", s / 3600);
    else
        snprintf(ret, 32, "%.1f days", s / 86400);
    return ret;
}

static void note_history(struct gathering *gathering, const struct trace_history *history)
{
    const struct trace_history_limits *limits = &gathering->options->history;
    struct bugreport *report = gathering->report;
    char age[32];
    bugreport_note(report, "%s", "");
    bugreport_note(report,
                   "Finished traces: of the last %s, at most %" PRIu32 " and %.1f MB together",
                   age_text(limits->age, age), limits->files, (double)limits->bytes / (1 << 20));
    if (gathering->state && !gathering->state_is_trusted && !gathering->options->n_folders)
        bugreport_note(
            report,
            "The tracing service belongs to another user: its list of folders is not used.");
    if (history->n_old)
        bugreport_note(report, "%" PRIu32 " are older and left out.", history->n_old);
    if (history->n_beyond)
        bugreport_note(report, "%" PRIu32 " are too many or too large together and left out.",
                       history->n_beyond);
    const char *line = history->problems.text;
    for (const char *end; line && (end = strchr(line, '\n')); line = end + 1)
        bugreport_note(report, "%.*s", (int)(end - line), line);
    if (!history->traces.n)
        bugreport_note(report, "There are no traces.");
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int add_finished(struct gathering *gathering, struct finished_trace *trace, bool is_main,
                        nsec_t now, struct err *err)
{
    char about[256], path[160], age[32], name[256];
    snprintf(name, sizeof(name), "%s", file_name(trace->path));
    if (trace->is_part)
        name[strlen(name) - strlen(ARMED_PART_SUFFIX)] = '\0';
    snprintf(about, sizeof(about), "%s %s before the report: %s",
             trace->is_part ? "left unfinished" : "finished", age_text(now - trace->written, age),
             str_printable(path, sizeof(path), trace->path, strlen(trace->path)));
    return add_entry(gathering, is_main ? NULL : name, steal_fd(&trace->fd), about, NULL, err);
}

// Returns the trace for the name that Android's tools read: the newest trace with the highest
// score.
static size_t choose_main(const struct trace_history *history)
{
    size_t best = 0;
    for (size_t i = 1; i < history->traces.n; i++)
        if (history->traces.items[i].score > history->traces.items[best].score)
            best = i;
    return best;
}

static int add_history(struct gathering *gathering, const struct trace_history *history,
                       struct err *err)
{
    nsec_t now = nsec_now(CLOCK_REALTIME);
    size_t n = history->traces.n, main = gathering->traces->n ? n : choose_main(history);
    int r = 0;
    note_history(gathering, history);
    if (main < n)
        r = add_finished(gathering, &history->traces.items[main], true, now, err);
    for (size_t i = 0; i < n && r == 0; i++)
        if (i != main)
            r = add_finished(gathering, &history->traces.items[i], false, now, err);
    return r;
}

// -- no trace in the report --

static void explain(const struct gathering *gathering, const struct trace_history *history,
                    const struct trace_history_folder *folders, struct err *why)
{
    const char *first = history->problems.text;
    char found[400], age[32];
    bool none_wanted = !gathering->options->history.files;
    if (none_wanted)
        snprintf(found, sizeof(found), "--history-files 0 leaves out finished traces");
    else if (first)
        snprintf(found, sizeof(found), "%.*s", (int)strcspn(first, "\n"), first);
    else if (history->n_old)
        snprintf(found, sizeof(found), "the newest finished trace is %s old",
                 age_text(nsec_now(CLOCK_REALTIME) - history->newest_old, age));
    else
        snprintf(found, sizeof(found), "%s has no finished trace", folders[0].path);
    err_set(why, -ENOENT, "no trace is in the report: %s; %s", gathering->no_snapshot.text, found);
    if (first && !none_wanted && geteuid() != 0)
        err_hint(why, -ENOENT, "run it as root");
    else if (!first && !none_wanted && history->n_old)
        err_hint(why, -ENOENT, "--history-age takes older ones");
    else if (gathering->no_snapshot.hint[0])
        err_hint(why, -ENOENT, "%s", gathering->no_snapshot.hint);
    else
        err_hint(why, -ENOENT, "--traces DIR names another folder");
}

// An ended session is not listed any more, and is not a finished trace until its file is on the
// disk. A report without any trace waits for the file.
static int find_history(const struct gathering *gathering,
                        const struct trace_history_folder *folders, size_t n_folders,
                        struct trace_history *ret)
{
    struct trace_history_limits limits = gathering->options->history;
    limits.parts = !gathering->state || gathering->options->n_folders > 0;
    for (nsec_t waited = 0;; waited += CLOSING_STEP) {
        int r = trace_history_find(folders, n_folders, &limits, nsec_now(CLOCK_REALTIME), ret);
        bool is_closing = gathering->traces->n == 0 && ret->traces.n == 0 && ret->n_unfinished > 0;
        if (r < 0 || !is_closing || limits.files == 0 || waited >= CLOSING_WAIT)
            return r;
        trace_history_done(ret);
        *ret = (struct trace_history){0};
        struct timespec step = {.tv_nsec = CLOSING_STEP};
        nanosleep(&step, NULL);
    }
}

int bugreport_traces_add(struct bugreport *report, const struct report_options *options,
                         struct reported_traces *ret, struct err *why, struct err *err)
{
    CLEANUP(trace_history_done) struct trace_history history = {0};
    struct trace_history_folder folders[FOLDERS_MAX];
    struct gathering gathering = {.report = report, .options = options, .traces = ret};
    *why = (struct err){0};
    ask_service(&gathering);
    if (gathering.state)
        choose_sessions(&gathering);
    int r = add_sessions(&gathering, 0, gathering.n_own, err);
    size_t n = list_folders(&gathering, folders);
    if (r == 0) {
        r = find_history(&gathering, folders, n, &history);
        r = r < 0 ? err_errno(err, r, "finished traces") : add_history(&gathering, &history, err);
    }
    if (r == 0)
        r = add_sessions(&gathering, gathering.n_own, gathering.n_chosen, err);
    if (r == 0 && !ret->n)
        explain(&gathering, &history, folders, why);
    if (gathering.state)
        pb__tracing_service_state__free_unpacked(gathering.state, NULL);
    return r;
}
