// SPDX-License-Identifier: Apache-2.0
//
// Java names before obfuscation. Mappings may be anywhere in a trace, so they are collected in file
// order. All mappings are known when packets are read in order of time.
#pragma once

#include <stdint.h>

#include "common/map.h"
#include "common/text.h"
#include "common/vec.h"
#include "common/wire.h"

struct import;

VEC_DEFINE(mapping_message_vec, struct wire_field);

// Classes with a longer name are left out, because each of their members would repeat the name.
#define CLASS_NAME_MAX 4096 // bytes

// The texts of both structs are borrowed from the trace.

struct obfuscated_class {
    struct text name, real_name;
    uint32_t package; // in strings; STRSET_NONE: any
};
VEC_DEFINE(obfuscated_class_vec, struct obfuscated_class);

struct obfuscated_field {
    struct text class_name, real_class_name, name, real_name;
};
VEC_DEFINE(obfuscated_field_vec, struct obfuscated_field);

// All zero is empty.
struct deobfuscation {
    struct mapping_message_vec mappings; // DeobfuscationMapping
    struct strset users; // call site and process, as bytes, in the order of their use
    // The index of classes and fields, built at the first use.
    size_t n_indexed; // number of mappings in the index
    struct obfuscated_class_vec classes;
    struct obfuscated_field_vec fields;
    struct map64 by_class; // hash of package and name -> index
    struct map64 by_field; // hash of "Class.field" -> index
};

// Returns the package of a process or file, in strings; STRSET_NONE: not known. `path` may be NULL.
uint32_t deobfuscation_package(struct import *im, int64_t upid, const char *path);

// Return the real name of a class of a package (also of arrays and "java.lang.Class<NAME>"), and
// the real name of a field with its class. Names are in strings; STRSET_NONE: in no mapping.
uint32_t deobfuscated_class(struct import *im, const char *name, uint32_t package);
uint32_t deobfuscated_field(struct import *im, const char *name);

// Notes that a process was at a call site. If a frame's file does not determine the app, the first
// process at the call site determines the app. Has no effect in a trace without mappings. `upid`
// may be UPID_NONE.
void deobfuscation_user(struct import *im, int64_t callsite, int64_t upid);

void deobfuscation_done(void *state);

struct deobfuscation *deobfuscation_of(const struct import *im);
extern const struct importer importer_deobfuscation_mapping; // has the state
