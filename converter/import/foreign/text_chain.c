// SPDX-License-Identifier: Apache-2.0
//
// See text_chain.h.
#include "converter/import/foreign/text_chain.h"

#include "converter/import/importer.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define FRAMES_MAX 4096

// Reads the frames in reverse: call sites are made from the outermost frame inwards, but the text
// begins with the innermost frame.
int64_t text_chain_read(struct import *im, const struct wire_field *message)
{
    static const int64_t all_addresses[5] = {[3] = -1};
    int64_t frames[FRAMES_MAX], callsite = CALLSITE_NONE, depth = 0;
    uint32_t empty = strset_add(&im->strings, "", 0);
    size_t n = 0;
    for (struct fields each = fields_of(message, PB_ForeignSample_frames);
         fields_next(&each) && n < FRAMES_MAX;) {
        MESSAGE(part, ForeignSample_Frame, &each.field);
        int64_t mapping = stacks_mapping(im, import_keep(im, &part.mapping), empty, all_addresses);
        frames[n++] =
            stacks_frame(im, mapping, 0, import_keep(im, &part.function), empty, 0, STRSET_NONE);
    }
    while (n-- > 0 && !import_failed(im))
        callsite = stacks_child(im, callsite, frames[n], depth++);
    return callsite;
}
