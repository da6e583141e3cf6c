// SPDX-License-Identifier: Apache-2.0
//
// Files of other formats become packets of a trace, so that everything after the reader stays the
// same: order of time, tables, budgets, joins. A format has a row in converter/input/kinds.c, which
// recognises the files, a const struct translator, and a row in translators.c.
//
// A translator reads the bytes from front to back. Lines or records that cannot be read are left
// out and counted; all others are kept.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/input/input.h"
#include "converter/input/kinds.h"
#include "converter/translate/packets.h"

struct translation {
    struct input *input;    // borrowed: the file
    struct packets packets; // the file's content as packets
    const struct input_needs *needs;
    struct err *err;
    char damage[160];    // what is wrong with the file, for people; empty: nothing
    char note[160];      // what is worth knowing, for people; empty: nothing
    size_t since_forget; // bytes read since pages were released
    uint64_t n_left_out; // lines or records that are left out
};

struct translator {
    const char *type; // of the trace, in metadata: "systrace"
    // Writes packets. Returns 0 or a negative errno with text: only memory, the disk and the user
    // end the work.
    int (*run)(struct translation *translation);
};

// Returns the translator of a kind of files, or NULL.
const struct translator *translator_of(enum kind_id kind);

// Replaces the bytes of the input by packets. Returns 0 or a negative errno with text.
int translate(struct input *input, const struct translator *translator,
              const struct input_needs *needs, struct err *err);

// Called after each piece of about `n` bytes that was read. Releases pages. Returns 0, -ECANCELED,
// or the failure of the packets, with text.
int translation_step(struct translation *translation, size_t n);

// Notes what is wrong with the file; the first note counts.
__attribute__((format(printf, 2, 3))) void translation_damage(struct translation *translation,
                                                              const char *format, ...);

// Notes what is worth knowing and is not damage; the first note counts.
__attribute__((format(printf, 2, 3))) void translation_note(struct translation *translation,
                                                            const char *format, ...);
