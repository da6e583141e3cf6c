// SPDX-License-Identifier: Apache-2.0
//
// Runs the armed folder against a fake service, with a clock of the test's own.
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

// Sends an event of the service about a session.
void tell(uint64_t id, enum service_event event, int result);
// Returns the number of live sessions.
size_t n_live(void);

void put(const char *folder, const char *name, const char *text);
void drop(const char *folder, const char *name);
// Returns the number of files with this name; NULL: of all files that are not parts.
size_t count_files(const char *folder, const char *name);

void arm(struct fixture *f);
// Asserts that the next work is due after `delay`, moves the time by `delay` and does the work.
void pass(struct fixture *f, nsec_t delay);
// Writes bytes into a session's file.
void record(uint64_t id, const char *bytes);
