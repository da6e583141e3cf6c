// SPDX-License-Identifier: Apache-2.0
//
// The texts of a modem's events.
#pragma once

struct import;
struct modem;

// The state of the machine at hand, made if there is none. NULL: no memory.
struct modem *modem_get(struct import *im);
struct modem *modem_free(struct modem *modem); // NULL
