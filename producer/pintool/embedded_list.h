// SPDX-License-Identifier: Apache-2.0
//
// The pinlist inside an APK, where Android looks for it.
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "common/zipindex.h"

#define EMBEDDED_LIST_NAME "assets/pinlist.meta"

// Returns whether `bytes` begin as a zip does.
bool embedded_list_is_zip(const void *bytes, size_t size);

// Appends the bytes of the pinlist in the zip that `index` describes. The zip may be hostile.
// Returns 0, or a negative errno with a text that begins with `name`: -ENOENT if the zip has no
// list; -EBADMSG if the zip has two, or if the list differs from its directory; -ENOTSUP if another
// method than deflate compressed the list; -EFBIG if the list has more than `max_bytes`; -ENOMEM;
// or the error of read().
int embedded_list_read(const struct zipindex_source *source, const struct zipindex *index,
                       const char *name, size_t max_bytes, struct strbuf *ret, struct err *err);
