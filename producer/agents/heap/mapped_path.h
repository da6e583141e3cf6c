// SPDX-License-Identifier: Apache-2.0
//
// The file behind an address of this process, by /proc/self/maps.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Writes the absolute path of the file that is mapped at `address` into `ret`, without terminator.
// Returns the size, or 0 if no file is known or the path does not fit. Allocates nothing.
size_t mapped_path(uint64_t address, char *ret, size_t room);
