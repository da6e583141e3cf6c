// SPDX-License-Identifier: Apache-2.0
//
// The armed folder against a service that a test plays, in a time that the test makes.
#pragma once

#include "common/str.h"
#include "producer/service/armed/armed.h"
#include "tests/unit/unit.h"

#define CONFIG "buffers { size_kb: 64 } data_sources { config { name: \"linux.sys_stats\" } }\n"

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

struct fixture {
    char root[64], configs[96], output[96];
    struct armed_place places[3];
    size_t n_places; // 0: the folder of the configs
    nsec_t now;
    struct strbuf said;
    struct log log;
    struct clock_reader clock;
    struct armed *armed;
};
struct fake_session {
    const struct service_consumer *consumer;
    int fd;
    bool started, destroyed, is_nameless;
    enum session_state state;
};

struct fake {
    struct fake_session sessions[64];
    size_t n;
    int enable_result, start_result, clone_result;
    size_t n_given_up;
    bool ends_at_once; // on service_disable()
    uint64_t events_lost, packets_discarded;
};

extern struct fake fake; // the service

int setup(void **state); // *state is a struct fixture
int teardown(void **state);

// What the service says of a session.
void tell(uint64_t id, enum service_event event, int result);
// Sessions that live.
size_t n_live(void);

void put(const char *folder, const char *name, const char *text);
void drop(const char *folder, const char *name);
// Files of that name, or, with NULL, all that are no parts.
size_t count_files(const char *folder, const char *name);

void arm(struct fixture *f);
// Goes to the next moment at which something happens, which is `delay` from here.
void pass(struct fixture *f, nsec_t delay);
// What a session writes into its file.
void record(uint64_t id, const char *bytes);
