// SPDX-License-Identifier: Apache-2.0
//
// A fake service for the tests of the ports, linked in the place of the real service. It notes each
// request in a diary, under a lock, because the loop runs in a thread of its own.
#pragma once

#include <pthread.h>

#include "producer/ground/loop.h"
#include "producer/service/service.h"
#include "tests/unit/unit.h"

#define FAKE_N_SOURCES 3000
#define FAKE_N_PACKETS 500 // of each read-out
#define PACKET_MAX     400000

// The fake service has one session at a time.
struct service {
    pthread_mutex_t lock;
    char diary[4096];
    const struct service_consumer *consumer;
    uint64_t id, last_id;
    bool done;
    struct config config;
    int output_fd;
    size_t read; // packets
    uint8_t packet[PACKET_MAX];
    struct loop_timer *written; // fires when the copy for a bugreport is in its file
    int written_result;
};

extern struct service service;

void fake_service_forget_session(void);
// Returns the size of packet `i` of a read-out. Each byte of the packet is the lowest byte of `i`.
size_t fake_service_packet_size(size_t i);
// Callback of the timer service.written.
void fake_service_copy_is_written(void *userdata);
