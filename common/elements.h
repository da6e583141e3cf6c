// SPDX-License-Identifier: Apache-2.0
#pragma once

// The number of elements of `array`, as a constant. A pointer as `array` does not compile.
#define ELEMENTS(array)                                                                            \
    (sizeof(array) / sizeof((array)[0]) +                                                          \
     0 * sizeof(struct {                                                                           \
         _Static_assert(!__builtin_types_compatible_p(__typeof__(array), __typeof__(&(array)[0])), \
                        "ELEMENTS() takes an array, not a pointer");                               \
         int unused_;                                                                              \
     }))
