// SPDX-License-Identifier: Apache-2.0
//
// What every unit test includes: cmocka with the headers that it wants in front of it.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
