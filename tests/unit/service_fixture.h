// SPDX-License-Identifier: Apache-2.0
//
// The service with sources and a clock of the test's own: nothing here waits.
#pragma once

#include "common/nsec.h"
#include "producer/service/service.h"
#include "tests/unit/unit.h"

#define SOURCE "buffers { size_kb: 64 } data_sources { config { name: 'a' } } "
#define TRIGGERS(mode, triggers)                                                                   \
    SOURCE "trigger_config { trigger_mode: " mode " trigger_timeout_ms: 60000 " triggers " }"

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

struct fake_time {
    nsec_t boot, asleep, real;
};

extern struct fake_time fake_time;

extern int n_open, n_running; // sources
extern size_t packet_bytes;   // of each packet of the sources
extern bool start_fails;

struct test {
    struct service *service;
    struct service_limits limits;
    char state_dir[64]; // empty: none
    double random;
    char log[4096];
    struct err err;
    char diary[4096]; // "1 started, 1 ended 0, 2 clone t, ..."
    uint64_t destroy_on_end, clone_on_trigger;
    struct service_consumer consumer, other;
};

extern struct test t;

int setup(void **state);
int teardown(void **state);

// Makes t.service from t.limits and t.state_dir.
void make_service(void);
int enable_with(const struct service_consumer *consumer, const char *text, int fd, bool start,
                uint64_t *ret_id);
// Starts a session of t.consumer. Returns its id.
uint64_t enable(const char *text);
// Lets `time` pass. The service does all work that comes due, at its time.
void pass(nsec_t time);
int fire(const char *name);

// Returns a read-out, one letter a packet: t trigger, c clone trigger, . a source's packet, Z
// statistics; other packets are left out.
const char *read_letters(uint64_t id);
