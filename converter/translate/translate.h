// SPDX-License-Identifier: Apache-2.0
//
// Translators convert files of other formats into packets of a trace. The steps after the reader
// need no change: order of time, tables, budgets, joins. A format has a row in
// converter/input/kinds.c, which recognises the files, a const struct translator, and a row in
// translators.c.
//
// A translator reads the bytes from front to back. Lines or records that cannot be read are left
// out and counted. All others are kept.
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
    char damage[160];    // damage of the file, for people; empty: no damage
    char note[160];      // a remark about the file, for people; empty: no remark
    size_t since_forget; // bytes read since pages were released
    uint64_t n_left_out; // lines or records that are left out
};

struct translator {
    const char *type; // of the trace, in metadata: "systrace"
    // Writes packets. Returns 0 or a negative errno with text: only a lack of memory, the disk and
    // the user can end the work.
    int (*run)(struct translation *translation);
};

// Returns the translator of a kind of files, or NULL.
const struct translator *translator_of(enum kind_id kind);

// Replaces the bytes of the input by packets. Returns 0 or a negative errno with text.
int translate(struct input *input, const struct translator *translator,
              const struct input_needs *needs, struct err *err);

// Must be called after each piece that was read; `n` is the approximate size of the piece in bytes.
// Releases pages. Returns 0, -ECANCELED, or the failure of the packets, with text.
int translation_step(struct translation *translation, size_t n);

// Records damage of the file. Only the first call counts.
__attribute__((format(printf, 2, 3))) void translation_damage(struct translation *translation,
                                                              const char *format, ...);

// Records a remark that is not damage. Only the first call counts.
__attribute__((format(printf, 2, 3))) void translation_note(struct translation *translation,
                                                            const char *format, ...);
