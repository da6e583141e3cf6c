// SPDX-License-Identifier: Apache-2.0
//
// The files that the Perfetto UI opens. The UI reads more kinds than mmsql, and new versions of the
// UI read new kinds: only a file that is certainly none of them is refused.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/input/kinds.h"

enum ui_answer {
    UI_READS,
    UI_MAY_READ, // mmsql does not know
    UI_REFUSES,
};

// Judges a file by its first bytes (4 KiB are enough for most kinds); `size` is not 0. *ret_kind:
// the kind, for messages.
enum ui_answer ui_judge(const uint8_t *bytes, size_t size, const struct kind **ret_kind);
