// SPDX-License-Identifier: Apache-2.0
//
// What a loaded object says of itself (PT_NOTE).
#pragma once

#include <link.h>
#include <stdint.h>

// The content of the first note of that name and type; *ret_size is 0 where there is none.
const uint8_t *note_find(const struct dl_phdr_info *info, const char *name, uint32_t type,
                         uint32_t *ret_size);
