// SPDX-License-Identifier: Apache-2.0
//
// Requests are small and answered at once, except for CloneSession, which waits for a flush.
#include "producer/cli/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "producer/service/ipc/socket.h"

#define PRODUCER_NAME "mmtrace_trigger"
#define SERVICES_MAX  16

bool remote_nobody_there(int r)
{
    return r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR;
}

int remote_take_socket(void *userdata, const struct cli_option *option, const char *folder,
                       struct err *err)
{
    (void)userdata;
    (void)option;
    if (!*folder)
        return err_set(err, -EINVAL, "--socket takes a folder");
    return setenv(IPC_CONTROL_VARIABLE, folder, true) < 0 ? err_errno(err, -errno, "--socket") : 0;
}

// -- connecting --

struct kind {
    const struct ipc_service *service;
    const char *control_name;
    const char *variable; // environment variable of Perfetto's name
};

static const struct kind consumer_kind = {&ipc_consumer_service, IPC_CONTROL_CONSUMER,
                                          "PERFETTO_CONSUMER_SOCK_NAME"};
static const struct kind producer_kind = {&ipc_producer_service, IPC_CONTROL_PRODUCER,
                                          "PERFETTO_PRODUCER_SOCK_NAME"};

static int connect_to(const struct kind *kind, const char *socket_name, struct ipc_client **ret,
                      struct err *err)
{
    signal(SIGPIPE, SIG_IGN);
    int r = ipc_client_connect(kind->service, socket_name, REMOTE_TIMEOUT, ret, err);
    if (remote_nobody_there(r)) {
        err_set(err, r, "no tracing service answers at %s", socket_name);
        err_hint(err, r, "start one with mmtrace daemon");
    }
    return r;
}

// Connects to the daemon's own socket. *ret_only: no other socket may be tried.
static int connect_to_control(const struct kind *kind, struct ipc_client **ret, bool *ret_only,
                              struct err *err)
{
    const char *folder = ipc_control_folder(kind->variable, ret_only);
    char *path CLEANUP(freep) = NULL;
    if (!folder)
        return -ENOENT;
    if (asprintf(&path, "%s/%s", folder, kind->control_name) < 0) {
        path = NULL;
        return err_errno(err, -ENOMEM, "%s", folder);
    }
    return connect_to(kind, path, ret, err);
}

int remote_connect_consumer(struct ipc_client **ret, struct err *err)
{
    bool only;
    struct err other = {0};
    int r = connect_to_control(&consumer_kind, ret, &only, err);
    if (only || (r != -EACCES && !remote_nobody_there(r)))
        return r;
    int r_other = connect_to(&consumer_kind, ipc_consumer_socket_name(), ret, &other);
    // The refusal of this user is a better error than a missing service at the other socket.
    if (r == -EACCES && remote_nobody_there(r_other))
        return r;
    *err = other;
    return r_other;
}

// -- triggers --

struct telling {
    char *const *names;
    size_t n_names;
    struct remote_trigger_answer *answers;
    int32_t pids[SERVICES_MAX]; // pids of mmtrace's daemons that have the triggers
    size_t n_pids, n_told;
};

// Returns whether the daemon has the triggers already. Each of our daemons sends its pid. One
// daemon may have several sockets, and the kernel does not tell the daemon's pid if a service
// manager made the sockets.
static bool was_told(struct telling *telling, const Pb__InitializeConnectionResponse *hello)
{
    for (size_t i = 0; hello->has_service_pid && i < telling->n_pids; i++)
        if (telling->pids[i] == hello->service_pid)
            return true;
    if (hello->has_service_pid && telling->n_pids < SERVICES_MAX)
        telling->pids[telling->n_pids++] = hello->service_pid;
    return false;
}

static void note_answers(struct telling *telling, const Pb__ActivateTriggersResponse *response)
{
    telling->n_told++;
    for (size_t i = 0; i < telling->n_names; i++) {
        struct remote_trigger_answer *answer = &telling->answers[i];
        answer->told++;
        if (i >= response->n_answers) {
            answer->silent++;
            continue;
        }
        answer->sessions += response->answers[i]->sessions;
        answer->acted += response->answers[i]->acted;
        answer->held_back += response->answers[i]->held_back;
    }
}

static int tell(struct ipc_client *client, struct telling *telling, struct err *err)
{
    Pb__InitializeConnectionRequest hello = PB__INITIALIZE_CONNECTION_REQUEST__INIT;
    ProtobufCMessage *reply;
    hello.producer_name = (char *)(uintptr_t)PRODUCER_NAME;
    int r = ipc_client_call(client, IPC_PRODUCER_INITIALIZE_CONNECTION, &hello.base, -1,
                            REMOTE_TIMEOUT, &reply, err);
    if (r < 0)
        return r;
    bool told = was_told(telling, (const Pb__InitializeConnectionResponse *)reply);
    protobuf_c_message_free_unpacked(reply, NULL);
    if (told)
        return 0;
    Pb__ActivateTriggersRequest triggers = PB__ACTIVATE_TRIGGERS_REQUEST__INIT;
    triggers.trigger_names = (char **)(uintptr_t)telling->names;
    triggers.n_trigger_names = telling->n_names;
    r = ipc_client_call(client, IPC_PRODUCER_ACTIVATE_TRIGGERS, &triggers.base, -1, REMOTE_TIMEOUT,
                        &reply, err);
    if (r < 0)
        return r;
    note_answers(telling, (const Pb__ActivateTriggersResponse *)reply);
    protobuf_c_message_free_unpacked(reply, NULL);
    return 0;
}

static int tell_at(const char *socket_name, struct telling *telling, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    int r = connect_to(&producer_kind, socket_name, &client, err);
    return r < 0 ? r : tell(client, telling, err);
}

static int tell_daemon(struct telling *telling, bool *ret_only, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    int r = connect_to_control(&producer_kind, &client, ret_only, err);
    return r < 0 ? r : tell(client, telling, err);
}

int remote_activate_triggers(char *const *names, size_t n_names,
                             struct remote_trigger_answer *ret_answers, struct err *err)
{
    struct telling telling = {.names = names, .n_names = n_names, .answers = ret_answers};
    const char *sockets = ipc_producer_socket_names();
    char name[256];
    bool only;
    memset(ret_answers, 0, n_names * sizeof(ret_answers[0]));
    int r = tell_daemon(&telling, &only, err);
    // Another user's process behind one of the other names must not keep the triggers from the
    // daemon.
    for (size_t i = 0; !only && (r == 0 || r == -EPERM || remote_nobody_there(r)) &&
                       ipc_socket_list_get(sockets, i, name, sizeof(name));
         i++)
        r = tell_at(name, &telling, err);
    return telling.n_told > 0 && (r == -EPERM || remote_nobody_there(r)) ? 0 : r;
}

// -- snapshots --

static void set_trigger(Pb__CloneSessionRequest *request,
                        const Pb__ObservableEvents__CloneTriggerHit *hit)
{
    request->clone_trigger_name = hit->trigger_name;
    request->clone_trigger_producer_name = hit->producer_name;
    request->has_clone_trigger_trusted_producer_uid = true;
    request->clone_trigger_trusted_producer_uid = (int32_t)hit->producer_uid;
    request->has_clone_trigger_boot_time_ns = true;
    request->clone_trigger_boot_time_ns = hit->boot_time_ns;
    request->has_clone_trigger_delay_ms = true;
    request->clone_trigger_delay_ms = hit->trigger_delay_ms;
}

int remote_clone_session(struct ipc_client *client, const struct remote_clone *clone,
                         bool *ret_in_file, struct err *err)
{
    Pb__CloneSessionRequest request = PB__CLONE_SESSION_REQUEST__INIT;
    if (clone->session_id) {
        request.selector_case = PB__CLONE_SESSION_REQUEST__SELECTOR_SESSION_ID;
        request.session_id = clone->session_id;
    } else {
        request.selector_case = PB__CLONE_SESSION_REQUEST__SELECTOR_UNIQUE_SESSION_NAME;
        request.unique_session_name = (char *)(uintptr_t)clone->name;
    }
    request.has_for_bugreport = request.for_bugreport = clone->for_bugreport;
    request.has_skip_trace_filter = request.skip_trace_filter = clone->for_bugreport;
    if (clone->trigger)
        set_trigger(&request, clone->trigger);
    ProtobufCMessage *reply;
    int r = ipc_client_call(client, IPC_CONSUMER_CLONE_SESSION, &request.base, clone->output_fd,
                            REMOTE_CLONE_TIMEOUT, &reply, err);
    if (r < 0)
        return r;
    const Pb__CloneSessionResponse *response = (const Pb__CloneSessionResponse *)reply;
    if (response->success)
        *ret_in_file = response->was_write_into_file;
    else
        r = err_set(err, -EREMOTEIO, "%s",
                    response->error && response->error[0]
                        ? response->error
                        : "the service could not clone the session");
    protobuf_c_message_free_unpacked(reply, NULL);
    return r;
}

void remote_free_buffers(struct ipc_client *client)
{
    Pb__FreeBuffersRequest request = PB__FREE_BUFFERS_REQUEST__INIT;
    ipc_client_call(client, IPC_CONSUMER_FREE_BUFFERS, &request.base, -1, REMOTE_TIMEOUT, NULL,
                    NULL);
}
