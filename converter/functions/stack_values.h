// SPDX-License-Identifier: Apache-2.0
//
// Stacks as values: a BLOB in protobuf's wire format, with the fields of trace_processor's Stack.
// The innermost entry comes first.
#pragma once

#define STACK_ENTRY 1 // a message; repeated

// Fields of an entry. An entry has one of these fields.
enum {
    STACK_NAME = 1,
    STACK_CALLSITE = 2,
    STACK_ANNOTATED_CALLSITE = 3,
    STACK_FRAME = 4,
};
