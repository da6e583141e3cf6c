// SPDX-License-Identifier: Apache-2.0
//
// The notes of a loaded object (PT_NOTE).
#pragma once

#include <link.h>
#include <stdint.h>

// Returns the content of the first note with this name and type, or NULL with *ret_size 0.
const uint8_t *note_find(const struct dl_phdr_info *info, const char *name, uint32_t type,
                         uint32_t *ret_size);
