// SPDX-License-Identifier: Apache-2.0
//
// The limit of open descriptors of this process.
#pragma once

#include <sys/resource.h>

// Raises a lower soft limit to `wanted`, or to the hard limit if that is lower. (The usual limit of
// 1024 exists for programs that use select().)
void fd_limit_raise(rlim_t wanted);
