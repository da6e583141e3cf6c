// SPDX-License-Identifier: Apache-2.0
//
// Flows between the slices of a Chrome trace in JSON.
#pragma once

#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/import.h"

enum json_flow_use { JSON_FLOW_BEGIN, JSON_FLOW_STEP, JSON_FLOW_END };

// A flow, as an event refers to the flow.
struct json_flow {
    uint64_t number;
    int64_t set; // args of the flow; ARG_SET_NONE: none
};

struct json_flow_end {
    int64_t slice, ts;
};
VEC_DEFINE(json_flow_ends, struct json_flow_end);

struct json_flow_wait {
    struct json_flow flow;
    uint64_t next; // index of the track's next wait, + 1; 0: none
};
VEC_DEFINE(json_flow_waits, struct json_flow_wait);

VEC_DEFINE(json_flow_sets, int64_t);

// All zero is empty.
struct json_flows {
    struct map64 last; // flow -> index in ends
    struct json_flow_ends ends;
    struct strset ids; // id, category and name of flows in the older format; the index is the flow
    struct json_flow_sets sets;   // args by the index in `ids`
    struct map64 waiting;         // track -> index in waits, + 1
    struct json_flow_waits waits; // flows that end in the next slice of their track
    struct strbuf key;
};

// Returns the flow of an event in the older format. The id, category and name identify the flow.
// Category and name are the args of the flow.
struct json_flow json_flow_of(struct import *im, struct json_flows *flows, uint64_t id,
                              struct slice_name category, struct slice_name name);

// Leads the flow through a slice, which began at `ts`.
void json_flow_through(struct import *im, struct json_flows *flows, struct json_flow flow,
                       int64_t slice, int64_t ts, enum json_flow_use use);

// Ends the flow in the next slice of the track.
void json_flow_await(struct import *im, struct json_flows *flows, struct json_flow flow,
                     uint32_t track);

// Ends the flows that wait for the track's next slice. Called with each new slice of a track.
void json_flow_slice(struct import *im, struct json_flows *flows, uint32_t track, int64_t slice);

void json_flows_done(struct json_flows *flows);
