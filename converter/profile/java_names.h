// SPDX-License-Identifier: Apache-2.0
//
// Names of a Java VM in Java's notation: int[][] for [[I, a.B.run(int, a.C) for
// La/B;::run(ILa/C;)V. Other names stay as they are.
#pragma once

#include <stddef.h>

// Both functions write a zero-terminated name into `ret`, cut to `size` bytes.
void java_type_name(const char *signature, char *ret, size_t size);
void java_method_name(const char *name, char *ret, size_t size);
