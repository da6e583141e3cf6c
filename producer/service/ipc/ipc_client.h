// SPDX-License-Identifier: Apache-2.0
//
// The other side of the protocol, for commands: connects to a service, ours or Perfetto's, calls
// methods and waits for replies. Blocking, with a timeout on everything. The program has to ignore
// SIGPIPE.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/service/ipc/service_table.h"

struct ipc_client;

// Connects to the socket `name` and binds `service`. -ECONNREFUSED or -ENOENT: nobody is there;
// -EACCES: not allowed; -EPERM: the process that serves the socket is not to be trusted
// (ipc_socket_check_owner()), and nothing was said to it; -EPROTO: the server does not know the
// service.
int ipc_client_connect(const struct ipc_service *service, const char *name, nsec_t timeout,
                       struct ipc_client **ret, struct err *err);
struct ipc_client *ipc_client_free(struct ipc_client *client);

// For poll(): readable when a reply may be there. ipc_client_receive() with a timeout of 0 takes
// it; look there before sleeping, replies may wait inside the client.
int ipc_client_fd(const struct ipc_client *client);

bool ipc_client_has_method(const struct ipc_client *client, uint32_t method);

// Sends a request; `fd` (borrowed, -1: none) goes along. Its replies come by ipc_client_receive().
// -EOPNOTSUPP: the service does not have the method.
int ipc_client_send(struct ipc_client *client, uint32_t method, const ProtobufCMessage *request,
                    int fd, uint64_t *ret_request_id, struct err *err);

struct ipc_reply {
    uint64_t request_id;
    uint32_t method;
    bool has_more;             // further replies to the same request follow
    ProtobufCMessage *message; // owned, of the method's type; NULL: the service refused the call
};

void ipc_reply_done(struct ipc_reply *reply);

// The next reply to the request, or to any (request_id 0), in the order of arrival. -ETIMEDOUT;
// -EINTR: a signal; -ECONNRESET: the service is gone. `timeout` of NSEC_MAX waits for ever.
int ipc_client_receive(struct ipc_client *client, uint64_t request_id, nsec_t timeout,
                       struct ipc_reply *ret, struct err *err);

// Sends and waits for the only reply. Signals do not disturb it. Replies to other requests are
// kept. *ret_reply (owned; the pointer may be NULL) is of the method's type. -EREMOTEIO: refused.
int ipc_client_call(struct ipc_client *client, uint32_t method, const ProtobufCMessage *request,
                    int fd, nsec_t timeout, ProtobufCMessage **ret_reply, struct err *err);

// Calls ReadBuffers; each packet (without Trace framing, borrowed) goes to `packet` as it comes,
// which returns 0 or a negative errno that ends it. `timeout` is for the silence between replies.
int ipc_client_read_buffers(struct ipc_client *client, nsec_t timeout,
                            int (*packet)(void *userdata, const void *bytes, size_t size),
                            void *userdata, struct err *err);

// Calls QueryServiceState and puts its parts together. *ret is owned.
int ipc_client_query_state(struct ipc_client *client, bool sessions_only, nsec_t timeout,
                           Pb__TracingServiceState **ret, struct err *err);
