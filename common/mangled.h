// SPDX-License-Identifier: Apache-2.0
//
// Readable names of mangled functions of C++ and Rust, by libiberty. A short mangled name can stand
// for gigabytes of readable text, so the text is bounded.
#pragma once

// Returns a readable form of `name`, owned by the caller. NULL: `name` is not mangled, is longer
// than 16 KiB, has a readable form of more than 64 KiB, or has a parameter pack and so many
// references to earlier parts that it could take long; or memory ran out; or this program is built
// without libiberty.
char *mangled_read(const char *name);
