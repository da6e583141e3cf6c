// SPDX-License-Identifier: Apache-2.0
//
// The common parts of verbs that talk to a tracing service: `mmtrace daemon` or Perfetto's traced.
// The daemon's own sockets come first, then the sockets of Perfetto's environment variables or
// defaults. A process that serves our own socket must run as root.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "producer/ground/options.h"
#include "producer/service/ipc/ipc_client.h"

#define REMOTE_TIMEOUT       (10 * NSEC_PER_SEC)  // for requests that are answered at once
#define REMOTE_CLONE_TIMEOUT (600 * NSEC_PER_SEC) // the copy of a large file on a slow disk

// CloneSession's id of the session with the highest bugreport_score.
#define REMOTE_BUGREPORT_SESSION UINT64_MAX

DEFINE_CLEANUP(ipc_client_freep, struct ipc_client, ipc_client_free);

// Connects to the first service that answers. Afterwards SIGPIPE is ignored.
int remote_connect_consumer(struct ipc_client **ret, struct err *err);

// The option --socket DIR of all verbs: only the daemon's own sockets in this folder are used. The
// folder is kept in the environment, so that a process in the background has it too.
#define REMOTE_SOCKET_OPTION                                                                       \
    {                                                                                              \
        0, "socket", "DIR", "the daemon whose --run-dir is DIR, no other service",                 \
            .take = remote_take_socket                                                             \
    }
int remote_take_socket(void *userdata, const struct cli_option *option, const char *folder,
                       struct err *err);

// The fate of a trigger in all services together. `told` counts services that took the trigger.
// `silent` of them, as traced, do not report the effect.
struct remote_trigger_answer {
    uint32_t sessions, acted, held_back; // as in struct service_trigger_result
    uint32_t told, silent;
};

// Sends the triggers to each running service once. Returns 0 if every service that answered took
// the triggers; ret_answers[n_names] is filled then.
int remote_activate_triggers(char *const *names, size_t n_names,
                             struct remote_trigger_answer *ret_answers, struct err *err);

// Returns whether `r` of remote_connect_consumer() means that no service runs.
bool remote_nobody_there(int r);

struct remote_clone {
    uint64_t session_id; // 0: by name
    const char *name;
    bool for_bugreport;
    int output_fd; // borrowed: for a session that writes into a file; -1: none
    const Pb__ObservableEvents__CloneTriggerHit
        *trigger; // borrowed; NULL: no trigger caused the clone
};

// Clones a session. The clone becomes the session of this connection. *ret_in_file is true if the
// trace is in output_fd; otherwise the caller must read the buffers. Returns 0 or a negative errno
// with text: -EREMOTEIO with the text of the service.
int remote_clone_session(struct ipc_client *client, const struct remote_clone *clone,
                         bool *ret_in_file, struct err *err);

// Makes the service drop the session of this connection.
void remote_free_buffers(struct ipc_client *client);
