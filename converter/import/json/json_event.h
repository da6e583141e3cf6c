// SPDX-License-Identifier: Apache-2.0
//
// An event of a Chrome trace in JSON during its conversion, shared by the files of this folder.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "converter/import/importer.h"
#include "converter/import/json/json_flows.h"

struct json_events;

struct json_event {
    struct import *im;
    struct json_events *all;
    union message_JsonEvent fields;
    int64_t ts;
    char phase;
    struct slice_name category, name;
    bool has_pid, has_tid;
    uint32_t pid, tid;
    int64_t utid;
};

// Counts an event that cannot be read.
void json_event_wrong(struct json_event *event);

// Reads phase C: counters of a process.
void json_counters_read(struct json_event *event);
// Reads phase T: the state of a thread for some time.
void json_thread_state_read(struct json_event *event);
// Reads phase M: names of processes and threads, and their order.
void json_names_read(struct json_event *event);
