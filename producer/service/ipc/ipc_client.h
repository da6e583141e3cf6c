// SPDX-License-Identifier: Apache-2.0
//
// The client side of the protocol, for commands: connects to a service (ours or Perfetto's), calls
// methods and waits for replies. All calls block, with a timeout. The program must ignore SIGPIPE.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/service/ipc/service_table.h"

struct ipc_client;

// Connects to the socket `name` and binds `service`. Returns 0 or a negative errno with text:
// -ECONNREFUSED or -ENOENT if nothing listens there; -EACCES if access is denied; -EPERM, with
// nothing sent, if the process that serves the socket is not trusted (ipc_socket_check_owner());
// -EPROTO if the server does not have the service.
int ipc_client_connect(const struct ipc_service *service, const char *name, nsec_t timeout,
                       struct ipc_client **ret, struct err *err);
struct ipc_client *ipc_client_free(struct ipc_client *client);

// Returns a descriptor for poll(), readable if a reply may have arrived. Before a poll, call
// ipc_client_receive() with a timeout of 0: replies may wait inside the client.
int ipc_client_fd(const struct ipc_client *client);

bool ipc_client_has_method(const struct ipc_client *client, uint32_t method);

// Sends a request with the descriptor `fd` (borrowed; -1: none). ipc_client_receive() returns the
// replies. Returns 0 or a negative errno: -EOPNOTSUPP if the service does not have the method.
int ipc_client_send(struct ipc_client *client, uint32_t method, const ProtobufCMessage *request,
                    int fd, uint64_t *ret_request_id, struct err *err);

struct ipc_reply {
    uint64_t request_id;
    uint32_t method;
    bool has_more;             // further replies to the same request follow
    ProtobufCMessage *message; // owned, of the method's type; NULL: the service refused the call
};

void ipc_reply_done(struct ipc_reply *reply);

// Receives the next reply to the request, or to any request if request_id is 0, in the order of
// arrival. A `timeout` of NSEC_MAX waits forever. Returns 0; -ETIMEDOUT; -EINTR on a signal; or
// -ECONNRESET if the service is gone.
int ipc_client_receive(struct ipc_client *client, uint64_t request_id, nsec_t timeout,
                       struct ipc_reply *ret, struct err *err);

// Sends a request and waits for its only reply, also during signals. Replies to other requests are
// kept. *ret_reply (owned; the pointer may be NULL) has the method's reply type. Returns 0 or a
// negative errno: -EREMOTEIO if the service refused the call.
int ipc_client_call(struct ipc_client *client, uint32_t method, const ProtobufCMessage *request,
                    int fd, nsec_t timeout, ProtobufCMessage **ret_reply, struct err *err);

// Calls ReadBuffers. Passes each packet (borrowed, without Trace framing) to `packet` as it
// arrives. A negative errno of `packet` ends the reading. `timeout` limits the silence between
// replies.
int ipc_client_read_buffers(struct ipc_client *client, nsec_t timeout,
                            int (*packet)(void *userdata, const void *bytes, size_t size),
                            void *userdata, struct err *err);

// Calls QueryServiceState and joins the parts of its answer. *ret is owned by the caller.
int ipc_client_query_state(struct ipc_client *client, bool sessions_only, nsec_t timeout,
                           Pb__TracingServiceState **ret, struct err *err);
