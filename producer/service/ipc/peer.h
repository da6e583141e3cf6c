// SPDX-License-Identifier: Apache-2.0
//
// One connection of the server, shared by server.c, which accepts and counts peers, and peer.c,
// which talks with them.
#pragma once

#include "producer/service/ipc/frame.h"
#include "producer/service/ipc/server.h"

#define IPC_PEER_NAME_MAX 48

struct ipc_peer {
    struct ipc_server *server;   // borrowed
    const struct ipc_port *port; // borrowed
    void *state;                 // state of the port
    int fd;                      // owned
    int passed_fd;               // owned, -1: none
    struct loop_io *io;          // owned
    struct loop_timer *timer;    // owned
    uint32_t events;             // awaited by `io`
    struct ipc_inbox inbox;
    struct ipc_outbox outbox;
    struct ipc_credentials credentials;
    char name[IPC_PEER_NAME_MAX];
    struct ipc_peer *next, *prev; // in the server's list

    bool closing;      // freed at the end of the callback, or by the timer
    bool last_words;   // closes as soon as the outbox is empty
    bool in_callback;  // in its own callback; sending waits for the end of the callback
    bool frames_left;  // the inbox has frames for the next round
    nsec_t rests;      // boot time until which no frame is handled, because the user sent too many
    bool wants_room;   // drained() must be called once the outbox has room
    nsec_t connected;  // CLOCK_MONOTONIC; NSEC_MAX once a frame has come
    nsec_t incomplete; // start of an incomplete frame; NSEC_MAX: none
    nsec_t stalled;    // last progress of the outbox; NSEC_MAX: the outbox is empty
};

// Makes a peer. Takes over `fd`, also on failure. Returns 0 or a negative errno.
int ipc_peer_new(struct ipc_server *server, const struct ipc_port *port, int fd,
                 const struct ipc_credentials *credentials, struct ipc_peer **ret);
struct ipc_peer *ipc_peer_free(struct ipc_peer *peer);

// server.c
const struct ipc_server_env *ipc_server_get_env(const struct ipc_server *server);
void ipc_server_peer_gone(struct ipc_server *server, struct ipc_peer *peer);
// Returns whether the unfinished requests and unread answers of the peer's user exceed the limit.
bool ipc_server_holds_too_much(const struct ipc_server *server, const struct ipc_peer *peer);
// Returns the time that the next frame of the peer has to wait, or 0.
nsec_t ipc_server_frame_wait(struct ipc_server *server, const struct ipc_peer *peer);
// Begins a frame of the peer. ipc_server_end_frame() counts its time, if the time of the peer's
// user is limited.
nsec_t ipc_server_begin_frame(const struct ipc_peer *peer);
void ipc_server_end_frame(struct ipc_server *server, const struct ipc_peer *peer, nsec_t began);
// Logs at most one line per second; further lines are counted.
__attribute__((format(printf, 3, 4))) void ipc_server_complain(struct ipc_server *server,
                                                               const struct ipc_peer *peer,
                                                               const char *format, ...);
