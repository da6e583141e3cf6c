// SPDX-License-Identifier: Apache-2.0
//
// Names of a Java VM as people write them: int[][] for [[I, a.B.run(int, a.C) for
// La/B;::run(ILa/C;)V. What does not read as such a name stays as it is.
#pragma once

#include <stddef.h>

// Zero-terminated, cut to size.
void java_type_name(const char *signature, char *ret, size_t size);
void java_method_name(const char *name, char *ret, size_t size);
