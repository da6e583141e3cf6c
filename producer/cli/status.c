// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace status`: the state of the tracing service. Any service sends the fields of Perfetto's
// protocol. Losses, triggers and buffer use of all sessions come only from mmtrace's daemon,
// because GetTraceStats only covers the connection's own session. Memory is read from /proc, by the
// pid of the service.
#include <errno.h>
#include <stdio.h>

#include "producer/cli/cli.h"
#include "producer/cli/remote.h"
#include "producer/cli/status_text.h"
#include "producer/ground/options.h"
#include "producer/service/ipc/socket.h"

struct command_line {
    bool json, raw;
};

static const struct cli_option options[] = {
    {0, "json", NULL, "one JSON object, for scripts", CLI_SETS(struct command_line, json)},
    {0, "raw", NULL, "the service's answer as it is, a TracingServiceState message",
     CLI_SETS(struct command_line, raw)},
    REMOTE_SOCKET_OPTION,
    {0},
};

static int check(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    return line->json && line->raw ? err_set(err, -EINVAL, "--json and --raw do not go together")
                                   : 0;
}

static uint64_t resident_bytes(pid_t pid)
{
    char path[64];
    unsigned long long pages = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file CLEANUP(fclosep) = fopen(path, "re");
    if (!file || fscanf(file, "%*u %llu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

// Reads the proportional set size and its locked part.
static void read_locked(pid_t pid, struct status *status)
{
    char path[64], line[128];
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *file CLEANUP(fclosep) = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned long long kb;
        if (sscanf(line, "Pss: %llu kB", &kb) == 1)
            status->own_bytes = (uint64_t)kb << 10;
        else if (sscanf(line, "Locked: %llu kB", &kb) == 1)
            status->locked_bytes = (uint64_t)kb << 10;
    }
}

static int print_raw(const Pb__TracingServiceState *state, struct err *err)
{
    size_t size = pb__tracing_service_state__get_packed_size(state);
    uint8_t *bytes CLEANUP(freep) = malloc(size + 1);
    if (!bytes) {
        err_errno(err, -ENOMEM, "status");
        return PROGRAM_FAILED;
    }
    pb__tracing_service_state__pack(state, bytes);
    return fwrite(bytes, 1, size, stdout) == size && fflush(stdout) == 0 ? PROGRAM_DONE
                                                                         : PROGRAM_FAILED;
}

// Returns the pid of the service, or 0. If the service manager has made the socket, the service
// says its own pid.
static pid_t pid_of_service(struct ipc_client *client, const Pb__TracingServiceState *state)
{
    struct ipc_credentials credentials;
    if (ipc_socket_credentials(ipc_client_fd(client), &credentials) < 0)
        return 0;
    bool is_managers = credentials.pid == 1 && state->n_producers == 1;
    return is_managers && state->producers[0]->has_pid ? state->producers[0]->pid : credentials.pid;
}

static int print_state(struct ipc_client *client, const Pb__TracingServiceState *state, bool json,
                       struct err *err)
{
    struct status status = {
        .state = state,
        .now = nsec_now(CLOCK_BOOTTIME),
        .now_realtime_ns = nsec_now(CLOCK_REALTIME),
    };
    status.pid = pid_of_service(client, state);
    if (status.pid > 0) {
        status.resident_bytes = resident_bytes(status.pid);
        read_locked(status.pid, &status);
    }
    struct strbuf text CLEANUP(strbuf_done) = {0};
    (json ? status_add_json : status_add_text)(&status, &text);
    if (text.failed) {
        err_errno(err, -ENOMEM, "status");
        return PROGRAM_FAILED;
    }
    fwrite(text.text, 1, text.size, stdout);
    return fflush(stdout) == 0 ? PROGRAM_DONE : PROGRAM_FAILED;
}

static int ask_and_print(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    Pb__TracingServiceState *state;
    int r = remote_connect_consumer(&client, err);
    if (r == 0)
        r = ipc_client_query_state(client, false, REMOTE_TIMEOUT, &state, err);
    if (r < 0)
        return PROGRAM_FAILED;
    int code = line->raw ? print_raw(state, err) : print_state(client, state, line->json, err);
    pb__tracing_service_state__free_unpacked(state, NULL);
    return code;
}

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "status",
    .usage = "usage: mmtrace status [--json] [--socket DIR]\n"
             "\n"
             "Shows the tracing service, mmtrace daemon or traced, and its sessions.\n"
             "\n",
    .more = "\n"
            "Columns: TIME is the time since the start. BUFFERS is the size of the\n"
            "buffers, USED the part with data. LOST counts events that the session could not\n"
            "keep. TRIGGERS counts the received triggers. ENDS IN is the time until the\n"
            "session ends, or stops waiting for a trigger. SCORE is the bugreport_score. A\n"
            "dash stands for none, or for a value that the service does not tell.\n"
            "\n"
            "Example: mmtrace status --json | python3 -m json.tool\n"
            "\n"
            "Exit code: 0 shown, 1 no service or failed, 2 wrong usage.\n",
    .options = options,
    .check = check,
    .run = ask_and_print,
};

int cli_status(int argc, char **argv)
{
    return cli_command_main(&command, argc, argv, &(struct command_line){0});
}
